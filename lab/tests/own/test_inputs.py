# SPDX-License-Identifier: GPL-2.0
"""Bad input, missing things, and a base that is gone, in a miniature without a network."""

import pytest
from host import common, repo, setup
from series import copies

from tests.own import miniature


@pytest.fixture
def mini(tmp_path):
    """A checkout of its own."""
    return miniature.Miniature(tmp_path)


def line(mini, number):
    """A line of the source in build/linux."""
    return (mini.linux / miniature.FILE).read_text().splitlines()[number]


def applied(mini, **env):
    """What applying says, which has to succeed."""
    status, text = mini.apply(**env)
    assert status == 0, text
    assert line(mini, 20) == "int series;"
    return text


def forget(mini):
    """Make this a machine that never had the pinned kernel."""
    (mini.downloads.parent / copies.BASE_FILES.name).unlink()


def test_wrong_sha(tmp_path):
    """A damaged download is deleted and reported."""
    path = tmp_path / "half.deb"
    path.write_bytes(b"half a download")
    with pytest.raises(common.Die, match="damaged"):
        setup.verified(path, "0" * 64)
    assert not path.exists()


@pytest.mark.parametrize(("call", "args", "words"), [
    (setup.kernel, ("/tmp",), "not a Linux source tree"),
    (common.run, (["no-such-program"], "tooling"), "missing"),
    (common.need_disk, (10**6,), "free"),
], ids=["not a tree", "missing tool", "full disk"])
def test_missing(call, args, words):
    """KERNEL= of no kernel tree, a missing program, and a full disk each end with a sentence."""
    with pytest.raises(common.Die, match=words):
        call(*args)


def test_patch_does_not_apply(tmp_path):
    """git am of a patch that does not fit leaves nothing behind."""
    patch = next(p for p in repo.KERNEL.patches() if "\n--- a/" in p.read_text())
    env = repo.git_env(**repo.identity("T", "t@example.com"))
    repo.git(tmp_path, "init", "-q")
    repo.git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x", env=env)
    good, _ = repo.am_patch(tmp_path, patch)
    assert not good
    assert not (tmp_path / ".git/rebase-apply").exists()


def test_pinned(mini):
    """The pinned file in the cache is taken as it is."""
    mini.pinned.rename(mini.downloads / mini.pinned.name)
    text = applied(mini)
    assert "Linux 7.3.4" in text
    assert "NOTE" not in text


def test_newest(mini):
    """The archive's newest 7.x is taken for what is gone, with a merge, and said loudly."""
    mini.offer(*(mini.package(*what) for what in
                 (("7.2.9",), ("7.4.1",), ("7.10.2", "near"), ("8.0.1", "same"))))
    text = applied(mini)
    for words in ("IS GONE FROM THE ARCHIVE; TAKING linux-source-7.10_7.10.2",
                  "build/linux IS Linux 7.10.2", "needed a 3-way merge"):
        assert words in text
    assert line(mini, 17) == "int changed_in_7_10_2;"
    text = applied(mini)  # once more
    assert "build/linux IS Linux 7.10.2" in text
    assert "unpacking" not in text
    mini.pinned.rename(mini.downloads / mini.pinned.name)
    assert "7.10.2" not in applied(mini).partition("anew from pin")[2]


def test_fresh(mini):
    """On a machine that never had the pinned kernel, the series applies as it is."""
    forget(mini)
    mini.offer(mini.package("7.4.1"))
    text = applied(mini)
    assert "build/linux IS Linux 7.4.1" in text
    assert "have to apply as they are" in text


@pytest.mark.parametrize(("had", "offered", "words"), [
    (False, ("7.4.1", "near"), "have to apply as they are"),
    (True, ("8.0.1",), "nor a later one"),
    (True, ("7.9.1", "same"), "does not apply to the base"),
], ids=["only a merge would do", "nothing of use", "conflict"])
def test_stops(mini, had, offered, words):
    """Where nothing in the archive fits, the sentence says what to put where."""
    if not had:
        forget(mini)
    mini.offer(mini.package(*offered))
    status, text = mini.apply()
    assert status == 1
    assert words in text
    assert f"put {mini.pinned.name} (SHA-256" in text


def test_tarball(mini):
    """LINUX_TARBALL= takes a pristine kernel of the same version, or of another one."""
    text = applied(mini, LINUX_TARBALL=str(mini.tarball("7.3.4")))
    assert "build/linux IS Linux 7.3.4" in text
    assert "merge" not in text
    text = applied(mini, LINUX_TARBALL=str(mini.tarball("7.8.0", "near")))
    assert "build/linux IS Linux 7.8.0" in text
    assert "needed a 3-way merge" in text


def test_hosts():
    """Debian and what is like it will do; others are told of the container."""
    for good in ("ID=debian", 'ID=devuan\nID_LIKE="debian"'):
        assert setup.wrong_host(good) == ""
    for bad in ('ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME="Ubuntu 26.04"',
                "ID=fedora\nPRETTY_NAME=Fedora", ""):
        assert "Containerfile" in setup.wrong_host(bad)
    assert (common.ROOT / "Containerfile").exists()
