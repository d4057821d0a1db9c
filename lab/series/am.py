# SPDX-License-Identifier: GPL-2.0
"""make am: apply the series to another tree, with 3-way merges where needed."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from host.common import BUILD, Die, run, say
from host.repo import KERNEL, PATCHES, am_patch, git, identity, patch_author, was_merged

from series.base import SUBSET, version


def am(given: str, upto: str = "") -> None:
    """make am: apply the series to another tree, on a branch or on a copy.

    given: the tree's path. upto: the last series, as for Tree.upto(); all if empty.
    Die names the patch that does not apply, and the tree is as it was.
    """
    if not given:
        raise Die("am needs TREE=/path/to/linux; give the tree to apply the series to")
    target = Path(given).expanduser().resolve()
    if not (target / "net/sched/sch_api.c").is_file():
        raise Die(f"TREE={given} is not a Linux source tree; give the path of one")
    if not KERNEL.dir.exists():
        raise Die("the base's objects for 3-way merges are missing; run 'make tree' first")
    chosen = KERNEL.upto(upto) if upto else KERNEL.series
    patches = [patch for series in chosen for patch in series.patches()]
    if not patches:
        raise Die(f"there are no patches in {PATCHES} up to {chosen[-1].folder}; run "
                  "'make export'")
    own = (target / ".git").exists()
    where = target if own else copy_subset(target)
    merged = am_branch(where, patches) if own else am_all(where, patches)
    say(f"{len(patches)} patches applied to {where} ({version(where)}): "
        f"{len(patches) - len(merged)} cleanly, {len(merged)} with a 3-way merge"
        + "".join(f"\n         3-way: {patch.name}" for patch in merged))


def copy_subset(target: Path) -> Path:
    """A repo build/am-<name> with the tracked part of a plain tree; its path."""
    where = BUILD / f"am-{target.name}"
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    paths = [path for path in SUBSET if (target / path).exists()]
    run(f"tar -C {quote(str(target))} -c {' '.join(paths)} | tar -C {quote(str(where))} -x",
        "am-copy", f"copying what the series needs of {target}", 3)
    KERNEL.commit_base(where, f"Linux {version(where)} (tracked part)", paths)
    return where


def am_branch(repo: Path, patches: Sequence[Path]) -> list[Path]:
    """Apply patches on a new branch of somebody's repo, left untouched on failure."""
    branch = "qdisc-shared-state"
    mine = dict(os.environ)
    if git(repo, "status", "--porcelain", "-uno", env=mine):
        raise Die(f"{repo} has uncommitted edits; commit or stash them there first")
    if git(repo, "rev-parse", "-q", "--verify", f"refs/heads/{branch}", check=False, env=mine):
        raise Die(f"{repo} has a branch {branch} already; remove it with "
                  f"'git -C {repo} branch -D {branch}' first")
    before = (git(repo, "symbolic-ref", "-q", "--short", "HEAD", check=False, env=mine)
              or git(repo, "rev-parse", "HEAD", env=mine))
    git(repo, "checkout", "-q", "-b", branch, env=mine)
    try:
        if git(repo, "var", "GIT_COMMITTER_IDENT", check=False, env=mine) is None:
            mine.update(identity(*patch_author(patches[0])))
        return am_all(repo, patches, mine)
    except BaseException:
        git(repo, "checkout", "-q", "-f", before, env=mine)
        git(repo, "branch", "-q", "-D", branch, env=mine)
        raise


def am_all(repo: Path, patches: Sequence[Path],
           env: dict[str, str] | None = None) -> list[Path]:
    """git am -3 each patch; the patches that needed a merge."""
    merged = []
    for patch in patches:
        add_blobs(repo, patch)
        good, output = am_patch(repo, patch, "-3", "--committer-date-is-author-date", env=env)
        if not good:
            lines = [line for line in output.splitlines()
                     if line.startswith(("CONFLICT", "error: "))]
            raise Die(f"{patch.name} does not apply to {repo} ({'; '.join(lines[:3])}); apply "
                      f"it by hand there with 'git am -3 {patch}' to see the conflict")
        if was_merged(output):
            merged.append(patch)
    return merged


def add_blobs(repo: Path, patch: Path) -> None:
    """Give a repo the base's blobs that a 3-way merge of a patch starts from."""
    for line in patch.read_text(errors="replace").splitlines():
        if line.startswith("index ") and ".." in line:
            blob = line.split()[1].partition("..")[0]
            if set(blob) == {"0"} or git(repo, "cat-file", "-e", blob, check=False) is not None:
                continue
            content = git(KERNEL.dir, "cat-file", "blob", blob, check=False, raw=True)
            if content is not None:
                git(repo, "hash-object", "-w", "--stdin", data=content)
