# SPDX-License-Identifier: GPL-2.0
"""Bad input, missing things, and a base that is gone."""

import tempfile
import unittest
from pathlib import Path

from host import common, repo, setup
from series import copies

from tests.own import miniature, sentence


class Inputs(unittest.TestCase):
    """Bad input and missing things."""

    def test_wrong_sha(self):
        """A damaged download is deleted and reported."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "half.deb"
            path.write_bytes(b"half a download")
            self.assertIn("damaged", sentence(self, setup.verified, path, "0" * 64))
            self.assertFalse(path.exists())

    def test_not_a_tree(self):
        """KERNEL= names something that is no kernel tree."""
        self.assertIn("not a Linux source tree",
                      sentence(self, setup.kernel, "/tmp"))

    def test_missing_tool(self):
        """A program that is not there."""
        self.assertIn("missing", sentence(self, common.run, ["no-such-program"], "tooling"))

    def test_full_disk(self):
        """A disk without the space that a step needs."""
        self.assertIn("free", sentence(self, common.need_disk, 10**6))

    def test_patch_does_not_apply(self):
        """git am of a patch that does not fit leaves nothing behind."""
        patch = next(p for p in repo.KERNEL.patches() if "\n--- a/" in p.read_text())
        with tempfile.TemporaryDirectory() as folder:
            env = repo.git_env(**repo.identity("T", "t@example.com"))
            repo.git(folder, "init", "-q")
            repo.git(folder, "commit", "-q", "--allow-empty", "-m", "x", env=env)
            applied, _ = repo.am_patch(folder, patch)
            self.assertFalse(applied)
            self.assertFalse((Path(folder) / ".git/rebase-apply").exists())


class NextYear(unittest.TestCase):
    """What happens when the pinned kernel is gone, in a miniature without a network."""

    def setUp(self):
        """A checkout of its own."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.mini = miniature.Miniature(Path(folder.name))

    def line(self, number):
        """A line of the source in build/linux."""
        return (self.mini.linux / miniature.FILE).read_text().splitlines()[number]

    def applied(self, **env):
        """What applying says, which has to succeed."""
        status, text = self.mini.apply(**env)
        self.assertEqual(status, 0, text)
        self.assertEqual(self.line(20), "int series;")
        return text

    def test_pinned(self):
        """The pinned file in the cache is taken as it is."""
        self.mini.pinned.rename(self.mini.downloads / self.mini.pinned.name)
        text = self.applied()
        self.assertIn("Linux 7.3.4", text)
        self.assertNotIn("NOTE", text)

    def test_newest(self):
        """The archive's newest 7.x instead of what is gone, with a merge, said loudly."""
        offered = [self.mini.package(*what) for what in
                   (("7.2.9",), ("7.4.1",), ("7.10.2", "near"), ("8.0.1", "same"))]
        self.mini.offer(*offered)
        text = self.applied()
        for words in ("IS GONE FROM THE ARCHIVE; TAKING linux-source-7.10_7.10.2",
                      "build/linux IS Linux 7.10.2", "needed a 3-way merge"):
            self.assertIn(words, text)
        self.assertEqual(self.line(17), "int changed_in_7_10_2;")
        text = self.applied()  # once more
        self.assertIn("build/linux IS Linux 7.10.2", text)
        self.assertNotIn("unpacking", text)
        self.mini.pinned.rename(self.mini.downloads / self.mini.pinned.name)
        self.assertNotIn("7.10.2", self.applied().partition("anew from pin")[2])

    def test_fresh(self):
        """A machine that never had the pinned kernel: the series applies as it is."""
        (self.mini.downloads.parent / copies.BASE_FILES.name).unlink()
        self.mini.offer(self.mini.package("7.4.1"))
        text = self.applied()
        self.assertIn("build/linux IS Linux 7.4.1", text)
        self.assertIn("have to apply as they are", text)

    def test_fresh_conflict(self):
        """The same, where only a merge would do: the sentence says what to put where."""
        (self.mini.downloads.parent / copies.BASE_FILES.name).unlink()
        self.mini.offer(self.mini.package("7.4.1", "near"))
        status, text = self.mini.apply()
        self.assertEqual(status, 1)
        self.assertIn(f"put {self.mini.pinned.name} (SHA-256", text)

    def test_gone(self):
        """An archive with nothing of use: the sentence says what to put where."""
        self.mini.offer(self.mini.package("8.0.1"))
        status, text = self.mini.apply()
        self.assertEqual(status, 1)
        self.assertIn(f"put {self.mini.pinned.name} (SHA-256", text)

    def test_conflict(self):
        """The series does not fit the newest."""
        self.mini.offer(self.mini.package("7.9.1", "same"))
        status, text = self.mini.apply()
        self.assertEqual(status, 1)
        self.assertIn("does not apply to the base", text)
        self.assertIn(f"put {self.mini.pinned.name} (SHA-256", text)

    def test_tarball(self):
        """LINUX_TARBALL= is a pristine kernel: the same version, and another one."""
        text = self.applied(LINUX_TARBALL=str(self.mini.tarball("7.3.4")))
        self.assertIn("build/linux IS Linux 7.3.4", text)
        self.assertNotIn("merge", text)
        text = self.applied(LINUX_TARBALL=str(self.mini.tarball("7.8.0", "near")))
        self.assertIn("build/linux IS Linux 7.8.0", text)
        self.assertIn("needed a 3-way merge", text)

    def test_hosts(self):
        """Debian and what is like it will do; others are told of the container."""
        for good in ("ID=debian", 'ID=devuan\nID_LIKE="debian"'):
            self.assertEqual(setup.wrong_host(good), "")
        for bad in ('ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME="Ubuntu 26.04"',
                    "ID=fedora\nPRETTY_NAME=Fedora", ""):
            self.assertIn("Containerfile", setup.wrong_host(bad))
        self.assertTrue((common.ROOT / "Containerfile").exists())
