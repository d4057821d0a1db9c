# SPDX-License-Identifier: GPL-2.0
"""Git repos made from a pinned base and series of patches: build/linux and build/iproute2."""

import copy
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from email import message_from_bytes
from email.header import decode_header, make_header
from email.utils import parseaddr
from pathlib import Path
from typing import Any, NoReturn

from host.common import BUILD, ROOT, Die, hash_files, say

PATCHES = ROOT / "patches"


def git_env(**extra: str) -> dict[str, str]:
    """Environment in which git obeys no personal or system-wide settings.

    In a folder of build/ that is no repo it does not take this one for it.
    """
    settings = {"safe.directory": "*", "core.autocrlf": "false", "gc.auto": "0",
                "advice.detachedHead": "false", "core.hooksPath": os.devnull}
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull, LC_ALL="C",
               GIT_CEILING_DIRECTORIES=str(BUILD), GIT_CONFIG_COUNT=str(len(settings)))
    for number, (key, value) in enumerate(settings.items()):
        env.update({f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value})
    env.update(extra)
    return env


def git(where: Path | str, *args: Any, check: bool = True,
        env: dict[str, str] | None = None, data: bytes | None = None,
        raw: bool = False) -> Any:
    """Run git in a folder; returns its output (stripped, or bytes when raw).

    With check, a failure is Die with git's own last words; without it the
    result is None.  data is the standard input, as bytes.
    """
    cmd = ["git", "-C", str(where), *map(str, args)]
    try:
        done = subprocess.run(cmd, env=env or git_env(), input=data, capture_output=True,
                              check=False)
    except FileNotFoundError:
        raise Die("git is missing; install it") from None
    if done.returncode:
        if not check:
            return None
        words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise Die(f"git {args[0]} failed in {where}: {words[-1] if words else 'no message'}")
    return done.stdout if raw else done.stdout.decode().strip()


def identity(name: str, mail: str, date: str | None = None) -> dict[str, str]:
    """Environment entries that make one person git's author and committer."""
    env = {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER")
           for field, value in (("NAME", name), ("EMAIL", mail), ("DATE", date)) if value}
    return env


def patch_author(patch: Path) -> tuple[str, str]:
    """(name, mail) from a patch file's From: line."""
    head = patch.read_bytes().split(b"\n\n")[0]
    author = message_from_bytes(head.partition(b"\n")[2])["From"] or ""
    name, mail = parseaddr(str(make_header(decode_header(author))))
    if not mail:
        raise Die(f"{patch} has no From: line; export the series again")
    return name, mail


def am_patch(repo: Path | str, patch: Path, *options: str,
             env: dict[str, str] | None = None) -> tuple[bool, str]:
    """git am one patch; (True, output), or (False, output) with the am aborted."""
    cmd = ["git", "-C", str(repo), "am", *options, str(patch)]
    env = env or git_env(**identity(*patch_author(patch)))
    done = subprocess.run(cmd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    output = done.stdout.decode(errors="replace")
    if done.returncode:
        git(repo, "am", "--abort", check=False, env=env)
    return done.returncode == 0, output


def was_merged(output: str) -> bool:
    """Whether git am, as it says, could apply a patch by a 3-way merge only."""
    return "Using index info to reconstruct a base tree" in output


class Series:
    """A folder of patches below patches/; tag marks its last commit in the tree.

    prefix: in the subjects. cover: what its cover letter is made from, in the folder
    unless it says otherwise.
    """

    def __init__(self, folder: str, prefix: str, cover: Path | None = None) -> None:
        self.dir, self.prefix = PATCHES / folder, prefix
        self.tag = f"end/{folder}"
        self.cover = cover or self.dir / "cover-letter.txt"

    @property
    def folder(self) -> str:
        """Its name: that of its folder."""
        return self.dir.name

    def patches(self) -> list[Path]:
        """The patches in order, without the cover letter, which is no .patch."""
        return sorted(self.dir.glob("0*.patch"))

    def cover_text(self) -> str:
        """What its cover letter is made from; empty when there is nothing."""
        return self.cover.read_text() if self.cover.exists() else ""

    def below(self, folder: Path) -> "Series":
        """The same series with its patches elsewhere."""
        other = copy.copy(self)
        other.dir = folder / self.folder
        return other


@dataclass(frozen=True)
class Stamp:
    """What a tree in build/ was made of, as build/<name>.stamp has it; None: not, or not known.

    Modules named here are in host/ and series/.

    source: where its base came from. Of the kernel "pin SHA256"; or what was given, "KERNEL=PATH"
    or "LINUX_TARBALL=PATH"; or "instead FILE", when the archive had the pinned one no more. Of
    iproute2 the SHA-256 that is pinned. Set by those who unpack it, base.make_linux() and
    setup.iproute2().
    other: name of the file or folder that the base came from, if it is not the pinned one: then
    git am may merge. Set with source.
    head: the commit that the patches gave, at first the base; what is not in its history has not
    been exported. Set with source, by Tree.checkout(), and by export.export_tree().
    patches: hash of the patch files that gave head. Set by Tree.apply() and export.export_tree();
    None while the tree is at its base, so that they are applied.
    failed: hash of patch files that did not apply. Set by Tree.am_failed(), and to None by
    Tree.apply() and export.export_tree().
    plain: the commit of the base that build/linux-base holds. Set by base.make_linux_base().
    built: state of the sources that tc and ip were built from. Set by setup.iproute2().
    """

    source: str | None = None
    other: str | None = None
    head: str | None = None
    patches: str | None = None
    failed: str | None = None
    plain: str | None = None
    built: str | None = None


class Tree:
    """A git repo in build/: a pinned base, tagged `base`, and series on top of it."""

    def __init__(self, name: str, series: list[Series]) -> None:
        self.dir = BUILD / name
        self.series = series
        self.stamp_file = BUILD / f"{name}.stamp"

    def git(self, *args: Any, **kwargs: Any) -> Any:
        """git in this tree."""
        return git(self.dir, *args, **kwargs)

    @property
    def stamp(self) -> Stamp:
        """What build/<name>.stamp says; nothing if it is not there, or not of this program."""
        try:
            return Stamp(**json.loads(self.stamp_file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return Stamp()

    def set_stamp(self, **changes: str | None) -> None:
        """Change fields of the stamp."""
        fields = asdict(replace(self.stamp, **changes))
        self.stamp_file.write_text(json.dumps(fields, indent=1) + "\n")

    def present(self) -> list[Series]:
        """The series that have patches, in order."""
        return [series for series in self.series if series.patches()]

    def patches(self) -> list[Path]:
        """The patch files of all series, in order."""
        return [patch for series in self.series for patch in series.patches()]

    def upto(self, name: str) -> list[Series]:
        """The series up to the last that name means: its folder, or the number in it."""
        found = [at for at, series in enumerate(self.series, 1)
                 if name in (series.folder, series.folder.partition("-")[0])]
        if not found:
            raise Die(f"there is no series '{name}'; use one of "
                      + ", ".join(series.folder for series in self.series))
        return self.series[:found[-1]]

    def patches_hash(self) -> str:
        """Hash of all patch files of all series."""
        return hash_files(self.patches())

    def commit_base(self, where: Path, message: str, paths: Sequence[str]) -> None:
        """Make `where` a git repo whose only commit, tagged base, holds paths."""
        git(where, "init", "-q")
        git(where, "symbolic-ref", "HEAD", "refs/heads/main")
        for key, value in (("status.showUntrackedFiles", "no"), ("core.autocrlf", "false"),
                           ("gc.auto", "0"), ("core.abbrev", "12")):
            git(where, "config", key, value)
        git(where, "add", "-f", "--", *paths)
        who = identity("base", "base@localhost", "2026-01-01T00:00:00Z")
        git(where, "commit", "-q", "-m", message, env=git_env(**who))
        git(where, "tag", "base")

    def unsaved(self) -> str:
        """What a re-apply would lose, in words; empty when nothing."""
        if self.git("rev-parse", "-q", "--verify", "base", check=False) is None:
            raise Die(f"{self.dir} is no git repo with a tag base, so not made by this program; "
                      "move it away and run this again")
        if self.git("status", "--porcelain", "-uno"):
            return "uncommitted edits"
        made = self.stamp.head or "base"
        if self.git("merge-base", "--is-ancestor", "HEAD", made, check=False) is None:
            return "commits that are not exported"
        return ""

    def require_saved(self) -> None:
        """Die when work in the tree would be lost, with the remedy."""
        lost = self.unsaved()
        if lost:
            raise Die(f"{self.dir} holds {lost}; commit and 'make export' them, or put them "
                      f"aside with 'git -C {self.dir} stash' or a branch and 'git -C {self.dir} "
                      f"reset --hard {(self.stamp.head or 'base')[:12]}', then run this again")

    def apply(self) -> bool:
        """Bring the tree up to date with patches/; True when that changed it.

        Die when the tree holds unexported work, or when a patch does not apply
        (the tree is then left at its base).
        """
        want = self.patches_hash()
        if self.stamp.patches == want and all(
                self.has_tag(series) for series in self.present()):
            return False
        self.require_saved()
        tips = self.am(self.series)
        self.checkout(tips)
        self.set_stamp(patches=want, failed=None)
        return True

    def checkout(self, tips: dict[str, str | None]) -> None:
        """Set branch main and the series' tags; rewrites only files that differ."""
        head = ([tip for tip in tips.values() if tip] or [self.git("rev-parse", "base")])[-1]
        self.git("checkout", "-q", "-B", "main", head)
        self.set_tags(tips)
        self.set_stamp(head=head)

    def set_tags(self, tips: dict[str, str | None]) -> None:
        """Tag each series' last commit; tips maps tag to commit, or to None."""
        for tag, tip in tips.items():
            if tip:
                self.git("tag", "-f", tag, tip)
            else:
                self.git("tag", "-d", tag, check=False)

    def has_tag(self, series: Series) -> bool:
        """Whether a series' tag is there, be it in the history of HEAD or not."""
        return self.git("rev-parse", "-q", "--verify", f"refs/tags/{series.tag}",
                        check=False) is not None

    def ends(self) -> dict[str, str]:
        """{tag: last commit} of the series in this tree, in order.

        A series is in it if it has patches or its tag is there. The last one ends at
        HEAD, each other one at its tag.
        """
        head = self.git("rev-parse", "HEAD")
        if self.git("merge-base", "--is-ancestor", "base", head, check=False) is None:
            raise Die(f"HEAD of {self.dir} does not descend from the tag base; rebase it "
                      "onto that")
        used = [series for series in self.series if series.patches() or self.has_tag(series)]
        *others, last = used or self.series[:1]
        ends = {series.tag: self.find_end(series) for series in others}
        ends[last.tag] = head
        for before, (tag, end) in zip(["base", *ends.values()], ends.items()):
            if self.git("merge-base", "--is-ancestor", before, end, check=False) is None:
                raise Die(f"tag {tag} in {self.dir} is on a commit before the end of the series "
                          "before it; set it to the last commit of its own series")
        return ends

    def find_end(self, series: Series) -> str:
        """The commit below HEAD that a series' tag means, also after a rebase."""
        tag = series.tag
        if self.git("merge-base", "--is-ancestor", tag, "HEAD", check=False) is not None:
            return self.git("rev-parse", f"{tag}^{{commit}}")
        subject = self.git("log", "-1", "--format=%s", tag, "--", check=False)
        log = [line.partition(" ") for line in
               self.git("log", "--format=%H %s", "base..HEAD").splitlines()]
        same = [commit for commit, _, text in log if text == subject]
        if len(same) != 1:
            raise Die(f"tag {tag} is not in the history of {self.dir}; set it to the last commit "
                      f"of {series.folder} with 'git -C {self.dir} tag -f {tag} <commit>', or "
                      "delete the tag and the patches of a series that is no more")
        return same[0]

    def am(self, series: Sequence[Series]) -> dict[str, str | None]:
        """Apply series to the base without touching this work tree; {tag: commit}.

        git am runs in a second work tree whose files stay absent until a patch
        needs them; a merge, on another base than the pinned one, needs all.
        Committer and date are the author's, so the ids are the same for everybody.
        """
        work = self.dir.with_name(self.dir.name + ".am")
        shutil.rmtree(work, ignore_errors=True)
        self.git("worktree", "prune")
        merging = ["-3"] if self.stamp.other else []
        self.git("worktree", "add", "-q", "--detach",
                 "--checkout" if merging else "--no-checkout", work, "base")
        try:
            git(work, "read-tree", "HEAD")
            tips = {}
            for one in series:
                patches = one.patches()
                for patch in patches:
                    good, output = am_patch(work, patch, *merging,
                                            "--committer-date-is-author-date")
                    if not good:
                        self.am_failed(patch, output)
                    if was_merged(output):
                        say(f"NOTE: {one.folder}/{patch.name} needed a 3-way merge")
                tips[one.tag] = git(work, "rev-parse", "HEAD") if patches else None
            return tips
        finally:
            self.git("worktree", "remove", "--force", work, check=False)

    def am_failed(self, patch: Path, output: str) -> NoReturn:
        """Leave the tree at its base and Die naming the patch."""
        if not self.unsaved():
            self.checkout({one.tag: None for one in self.series})
            self.set_stamp(patches=None, failed=self.patches_hash())
        reasons = [line[7:] for line in output.splitlines() if line.startswith("error: ")]
        raise Die(f"{patch.relative_to(ROOT)} does not apply to the base in {self.dir} "
                  f"({'; '.join(reasons[:2]) or output.strip()[-200:]}); correct the patch, "
                  "or rebase the series and export it again")


# The series, in the order in which they are applied; a folder may be missing.
KERNEL = Tree("linux", [
    Series("0-fixes", "PATCH net"),
    Series("0-next", "PATCH net-next"),
    Series("1-shared-state", "PATCH net-next", ROOT / "cover-letter.txt"),
    Series("2-rate-group", "PATCH net-next"),
    Series("3-shared-option", "PATCH net-next"),
    Series("4-shared-htb", "PATCH net-next")])
IPROUTE2 = Tree("iproute2", [Series("iproute2", "PATCH iproute2-next")])
