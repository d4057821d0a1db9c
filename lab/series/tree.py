#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The kernel tree in build/linux and the patch series that it stands for.

apply         unpack the base into build/linux and build/linux-base, git am the series;
              KERNEL=/path/to/linux or LINUX_TARBALL=/path/to/linux.tar.xz in the
              environment is the base then. On a base that is not the pinned one,
              patches are merged where they do not apply
export        write the commits in build/linux (and build/iproute2) back to patches/,
              and the files they touch to their kernel paths in this repo
check-copies  fail when those files or patches/ differ from the commits
am            apply the series to another tree, with 3-way merges where needed

The series are listed at the end of lab/host/repo.py. The tag end/<folder> marks the last
commit of each; the last series ends at HEAD, wherever its tag is. A series begins with
its tag, or with patches in its folder; after a rebase its end is the commit with the
subject of the one that the tag is on.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from email.header import Header
from email.utils import parseaddr
from pathlib import Path
from shlex import quote

from host import setup
from host.common import BUILD, ROOT, Die, base_conf, known, need_disk, run, say
from host.repo import (
    IPROUTE2,
    KERNEL,
    PATCHES,
    Series,
    Tree,
    am_patch,
    git,
    git_env,
    identity,
    patch_author,
    was_merged,
)

from series.copies import (
    base_files,
    committed,
    copies,
    remove,
    store_base_files,
    stored_base_files,
    write,
    write_links,
)

# What git tracks of the kernel: everything the series may touch, and what
# checkpatch and get_maintainer read.  The rest lies there untracked.
SUBSET = [
    "MAINTAINERS", "Makefile", "Kbuild", "Kconfig", "COPYING", "CREDITS", ".clang-format",
    ".get_maintainer.ignore", ".mailmap", "net", "include/net", "include/linux",
    "include/uapi/linux/pkt_sched.h", "include/kunit", "drivers/net/netdevsim",
    "tools/testing/selftests/tc-testing", "tools/testing/kunit", "tools/net/ynl", "scripts",
    "Documentation/networking", "Documentation/netlink"]

# Not *.patch, so that "git am patches/<series>/*.patch" does not stop at it.
COVER = "0000-cover-letter.txt"
MANY = 300  # files: more than any series touches

LINUX_BASE = BUILD / "linux-base"


# ------------------------------------------------------------------ tree

def apply() -> None:
    """make tree: base and series in build/linux, the plain base in build/linux-base."""
    if not KERNEL.dir.exists():
        KERNEL.stamp_file.unlink(missing_ok=True)
    have = KERNEL.stamp.source
    wanted = wanted_source(have or "")
    if KERNEL.dir.exists() and have != wanted:
        if not have:
            raise Die(f"{KERNEL.dir} was not made by this program (no {KERNEL.stamp_file.name} "
                      "beside it); move it away and run this again")
        KERNEL.require_saved()
        say(f"build/linux was made from {have}; making it anew from {wanted}")
        shutil.rmtree(KERNEL.dir)
    if not KERNEL.dir.exists():
        make_linux(wanted)
    if KERNEL.stamp.plain != KERNEL.git("rev-parse", "base") or not LINUX_BASE.exists():
        make_linux_base()
    other = KERNEL.stamp.other
    if other:
        tell = setup.loudly if KERNEL.stamp.source.startswith("instead") else say
        tell(f"build/linux IS Linux {version(KERNEL.dir)} FROM {other}, and not from "
             f"the pinned {base_conf()['KERNEL_FILE']}")
    if apply_series(other):
        say(f"build/linux: {KERNEL.git('rev-list', '--count', 'base..HEAD')} patches on "
            f"{KERNEL.git('log', '-1', '--format=%s', 'base')}")
    if not other:
        store_base_files(base_files())
    write_links()


def apply_series(other: str | None) -> bool:
    """Bring build/linux up to date with patches/; True when that changed it.

    other: what its base came from, if that is not the pinned one.
    """
    if not other:
        return KERNEL.apply()
    if KERNEL.stamp.patches != KERNEL.patches_hash():
        lend_blobs()
    try:
        return KERNEL.apply()
    except Die as error:
        conf = base_conf()
        raise Die(f"{str(error).removeprefix('error: ')}; the series is made for Linux "
                  f"{conf['KERNEL_VERSION']}: put {conf['KERNEL_FILE']} (SHA-256 "
                  f"{conf['KERNEL_SHA256']}) into {setup.DOWNLOADS}, 'make clean', and run this "
                  "again") from None


def lend_blobs() -> None:
    """Give build/linux every blob that a patch names, though its base is another one.

    They come from the series applied to BASE_FILES, which a machine has that once had the
    pinned base.
    """
    files = stored_base_files()
    if not files:
        say("NOTE: the pinned base has never been here, so the patches have to apply as they are")
        return
    with tempfile.TemporaryDirectory(dir=BUILD) as tmp:
        repo = Path(tmp)
        for path, content in files.items():
            (repo / path).parent.mkdir(parents=True, exist_ok=True)
            (repo / path).write_bytes(content)
        KERNEL.commit_base(repo, "files of the pinned base", ["."])
        for patch in KERNEL.patches():
            good, _ = am_patch(repo, patch)
            if not good:
                say(f"NOTE: the pinned base is not at hand, so {patch.name} and what follows "
                    "have to apply as they are")
                break
        run(["cp", "-an", f"{repo}/.git/objects/.", f"{KERNEL.dir}/.git/objects/"], "lend-blobs",
            ok=(0, 1))


def wanted_source(have: str) -> str:
    """Where the base is to come from; a tree made from KERNEL= or LINUX_TARBALL= stays."""
    for key, value in zip(("KERNEL", "LINUX_TARBALL"), setup.given(), strict=True):
        if value:
            return f"{key}={setup.kernel(*setup.given())}"
    if have.startswith(("KERNEL=", "LINUX_TARBALL=")):
        say(f"NOTE: build/linux is made from {have} ('make clean' returns to the pinned base)")
        return have
    if have.startswith("instead ") and not (setup.DOWNLOADS / base_conf()["KERNEL_FILE"]).exists():
        return have                                     # the pinned base has not come back
    return f"pin {base_conf()['KERNEL_SHA256']}"


def make_linux(source: str) -> None:
    """Unpack or copy the base into build/linux and commit the tracked part."""
    need_disk(6)
    origin = setup.kernel(*setup.given())
    if origin.is_dir():
        part = KERNEL.dir.with_name("linux.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        run(f"tar -C {quote(str(origin))} --exclude=./.git -c . | "
            f"tar -C {quote(str(part))} -xm", "tree-unpack", f"copying {origin}", 15)
    else:
        part = setup.unpack(origin, KERNEL.dir, "tree-unpack", 25)
    if not (part / "net/sched/sch_api.c").exists():
        raise Die(f"{origin} holds no Linux source; delete it, or give another one")
    (part / ".gitignore").unlink(missing_ok=True)       # Debian's ignores everything
    KERNEL.commit_base(part, f"Linux {version(part)} (tracked part)",
                       [path for path in SUBSET if (part / path).exists()])
    pinned = origin.name == base_conf()["KERNEL_FILE"]
    if pinned:
        check_base(part)
    elif source.startswith("pin "):
        source = f"instead {origin.name}"
    part.rename(KERNEL.dir)
    KERNEL.set_stamp(source=source, head=KERNEL.git("rev-parse", "base"), patches=None,
                     other=None if pinned else origin.name)


def version(linux: Path) -> str:
    """The kernel version that a tree's Makefile states, like 7.3.4."""
    fields = dict(line.split(" = ", 1) for line in (linux / "Makefile").read_text().splitlines()[:6]
                  if " = " in line)
    return (f"{fields['VERSION']}.{fields['PATCHLEVEL']}.{fields.get('SUBLEVEL', '0')}"
            f"{fields.get('EXTRAVERSION', '')}")


def check_base(linux: Path) -> None:
    """Die when the folders that matter are not those that base.conf pins."""
    conf = base_conf()
    for path, key in (("net/sched", "NET_SCHED"), ("include/net", "INCLUDE_NET")):
        found = git(linux, "rev-parse", f"base:{path}")
        if found != conf[f"KERNEL_TREE_{key}"]:
            raise Die(f"{path} of the unpacked kernel is git tree {found} and not the one that "
                      f"base.conf pins as KERNEL_TREE_{key}; correct base.conf")


def make_linux_base() -> None:
    """build/linux-base: the base without the series, for comparisons.

    Hard links to build/linux save time and space; what git tracks there, and
    so anything that is edited, becomes files of its own.
    """
    part = LINUX_BASE.with_name("linux-base.part")
    for path in (part, LINUX_BASE):
        shutil.rmtree(path, ignore_errors=True)
    run(["cp", "-al", KERNEL.dir, part], "tree-base", "making build/linux-base", 5)
    for path in [".git", *SUBSET]:
        shutil.rmtree(part / path) if (part / path).is_dir() else (part / path).unlink(True)
    run(f"git -C {quote(str(KERNEL.dir))} archive base | tar -C {quote(str(part))} -xm",
        "tree-base", env=git_env())
    part.rename(LINUX_BASE)
    KERNEL.set_stamp(plain=KERNEL.git("rev-parse", "base"))


# ---------------------------------------------------------------- export

def export(person: str = "") -> None:
    """make export: write patches/ and the files at their kernel paths.

    person: "Name <mail>", for export_signed().
    """
    if not KERNEL.dir.exists():
        raise Die("there is no build/linux to export from; run 'make tree'")
    before = set(copies(KERNEL.stamp.head or "base")) | committed()
    for one in (KERNEL, IPROUTE2):
        if one.dir.exists():
            export_tree(one)
    after = copies("HEAD")
    for path in before - after.keys():
        remove(ROOT / path)
    for path, (mode, content) in after.items():
        target = ROOT / path
        if target.is_symlink():
            target.unlink()
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, content)
        target.chmod(mode)
    write_links()
    if person:
        export_signed(person)


def export_tree(one: Tree) -> None:
    """Write one tree's series to patches/; die before anything is lost.

    What is written has been applied to the base again: the tree moves to the
    commits that everybody gets, whose content equals the exported ones'.
    """
    stamp = one.stamp
    if one.git("symbolic-ref", "-q", "HEAD", check=False) is None:
        raise Die(f"{one.dir} is on no branch; finish or abort the rebase there first")
    if one.patches() and one.git("rev-parse", "HEAD") == one.git("rev-parse", "base"):
        raise Die(f"{one.dir} has no commits on its base, so exporting would delete the patches; "
                  "'make tree' applies them, or delete them yourself")
    touched = len(one.git("diff", "--name-only", "base", "HEAD").splitlines())
    if touched > MANY:
        raise Die(f"the commits in {one.dir} touch {touched} files; take out again what 'git add' "
                  "of a folder has taken in, as git does not track all of the base")
    if one.git("status", "--porcelain", "-uno"):
        say(f"NOTE: edits in {one.dir} that are not committed are left out")
    for series in one.series:
        if (series.dir / COVER).exists() and not series.cover.exists():
            raise Die(f"{series.dir} has a cover letter, but not "
                      f"{series.cover.relative_to(ROOT)} to make it from; write that (subject in "
                      "the first line)")
        if series.dir.exists() and not series.cover.exists():
            say(f"NOTE: no {series.cover.relative_to(ROOT)}, so no cover letter")
    with tempfile.TemporaryDirectory(dir=BUILD) as tmp:
        tips = round_trip(one, Path(tmp))
        if (stamp.head and one.patches_hash() not in (stamp.patches, stamp.failed)
                and differing(one, Path(tmp))):
            raise Die(f"patches/ changed since {one.dir} was made from it, and exporting would "
                      f"undo that; put your commits on a branch, 'git -C {one.dir} reset --hard "
                      f"{stamp.head[:12]}', 'make tree', and cherry-pick them")
        changed = [install(Path(tmp) / series.folder, series.dir) for series in one.series]
    old, new = stamp.head, ([tip for tip in tips.values() if tip] or ["base"])[-1]
    one.git("reset", "-q", "--soft", new)
    one.set_tags(tips)
    one.set_stamp(head=one.git("rev-parse", "HEAD"), patches=one.patches_hash(),
                  failed=None)
    if any(changed) and old:
        print(one.git("range-diff", "--no-color", f"base..{old}", f"base..{new}", check=False)
              or "(no previous export to compare with)", flush=True)
    say(f"{one.dir.name}: {sum(changed)} files in patches/ changed")


def round_trip(one: Tree, out: Path) -> dict[str, str | None]:
    """Format one tree's series into out and apply that to the base; {tag: commit}.

    Die when git am makes something else of the patches than the commits.
    """
    ends = format_tree(one, out)
    tips = one.am([series.below(out) for series in one.series])
    for tag, end in ends.items():
        if tips[tag] and one.git("diff", "--raw", tips[tag], end):
            raise Die(f"git am does not give the content of {end[:12]} in {one.dir} back; "
                      "see whether it holds an empty commit or a merge")
    with tempfile.TemporaryDirectory(dir=BUILD) as tmp:
        format_tree(one, Path(tmp), tips)
        for path in sorted(out.glob("*/0*"), key=lambda path: path.name == COVER):
            twin = Path(tmp) / path.relative_to(out)
            if not twin.exists() or twin.read_bytes() != path.read_bytes():
                raise Die(f"{path.name} changes on its way through git am; mend its commit "
                          "message (no line '---' or 'diff ', no '[...]' before the subject)")
    return tips


def format_tree(one: Tree, out: Path,
                tips: dict[str, str | None] | None = None) -> dict[str, str | None]:
    """Write all series of a tree below out, one folder each; {tag: last commit}.

    tips gives the last commit of each series; without it, see Tree.ends().
    """
    ends = tips or one.ends()
    start = "base"
    for series in one.series:
        (out / series.folder).mkdir(parents=True)
        if ends.get(series.tag):
            format_series(one, series, start, ends[series.tag], out / series.folder)
            start = ends[series.tag]
    return ends


def format_series(one: Tree, series: Series, start: str, end: str, out: Path) -> None:
    """git format-patch of one series into out, the same bytes for the same commits.

    The cover letter comes from the last commit's author and date.  No
    base-commit trailer: our base commit means nothing elsewhere, so the cover
    letter names the release instead.
    """
    count = int(one.git("rev-list", "--count", f"{start}..{end}"))
    if not count:
        return
    if one.git("rev-list", "--merges", f"{start}..{end}"):
        raise Die(f"{one.dir} has merges between {start[:12]} and {end[:12]}; rebase them away")
    cover = series.cover.exists()
    author = one.git("log", "-1", "--format=%an%n%ae%n%aI", end).splitlines()
    one.git("format-patch", "-q", "--full-index", "--zero-commit", "--no-signature", "--no-base",
            "--no-thread", f"--subject-prefix={series.prefix}", "-o", out,
            "--numbered" if cover or count > 1 else "--no-numbered",
            "--cover-letter" if cover else "--no-cover-letter", f"{start}..{end}",
            env=git_env(**identity(*author)))
    if cover:
        letter = (out / "0000-cover-letter.patch").rename(out / COVER)
        fill_cover(letter, series.cover, base_line(one))


def base_line(one: Tree) -> str:
    """The cover letter's sentence about the base."""
    conf = base_conf()
    if one is KERNEL:
        return (f"Base: Linux {conf['KERNEL_VERSION']} as Debian packages it "
                "(blob ids in full, git am -3 works)")
    return f"Base: iproute2 v{conf['IPROUTE2_VERSION']} (blob ids in full, git am -3 works)"


def fill_cover(letter: Path, text: Path, base: str) -> None:
    """Put subject (first line of text) and body (the rest) into git's cover letter."""
    subject, _, body = text.read_text().strip().partition("\n")
    content = letter.read_text()
    content = re.sub(r"^From: (.*?)(\s+<)", lambda m: f"From: {mail_name(m[1])}{m[2]}", content,
                     count=1, flags=re.MULTILINE)
    if not subject.isascii():
        raise Die(f"the first line of {text.name} is a mail subject; write it in ASCII")
    if "\nBase: " not in body:
        body += f"\n\n{base}"
    content = content.replace("*** SUBJECT HERE ***", subject.strip(), 1)
    content = content.replace("*** BLURB HERE ***", body.strip(), 1)
    if not content.isascii() and "\nContent-Type:" not in content:
        content = content.replace("\n\n", "\nMIME-Version: 1.0\nContent-Type: text/plain; "
                                  "charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n", 1)
    letter.write_text(content)


def mail_name(name: str) -> str:
    """A person's name as a mail header holds it."""
    return name if name.isascii() else Header(name, "utf-8").encode()


def install(new: Path, old: Path) -> int:
    """Make folder old hold the patches of folder new; the number of files that changed."""
    names = {path.name for path in new.glob("0*")}
    gone = [path for path in old.glob("0*") if path.name not in names]
    for path in gone:
        path.unlink()
    if names:
        old.mkdir(parents=True, exist_ok=True)
    return len(gone) + sum(write(old / name, (new / name).read_bytes()) for name in names)


def export_signed(person: str) -> None:
    """Write patches/ to build/export-signed with another person as author and signer."""
    name, mail = parseaddr(person)
    if not (name and mail):
        raise Die("SOB must read 'Name <mail>'; give it like that")
    out = BUILD / "export-signed"
    shutil.rmtree(out, ignore_errors=True)
    for patch in sorted(PATCHES.glob("*/0*")):
        new = sign(patch.read_text(), patch_author(patch), name, mail)
        target = out / patch.relative_to(PATCHES)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(new)
    say(f"patches from {name} <{mail}> are in {out}")


def sign(text: str, author: tuple[str, str], name: str, mail: str) -> str:
    """A patch's text with another From:, Signed-off-by:, maintainer and shortlog name."""
    old = f"{re.escape(author[0])} <{re.escape(author[1])}>"
    for what, new, count in (
            (r"^From: .*\n(?: .*\n)*", f"From: {mail_name(name)} <{mail}>\n", 1),
            (rf"^(Signed-off-by: |[+ ]M:\t){old}$", rf"\g<1>{name} <{mail}>", 0),
            # the cover letter's shortlog
            (rf"^{re.escape(author[0])} (\(\d+\):)$", rf"{name} \1", 1)):
        text = re.sub(what, new, text, count=count, flags=re.MULTILINE)
    return text


def check_copies() -> None:
    """make check-copies: Die naming the files that differ from the commits."""
    if not KERNEL.dir.exists():
        raise Die("there is no build/linux to compare with; run 'make tree'")
    if KERNEL.stamp.other:
        say(f"NOTE: build/linux is made from {KERNEL.stamp.other}, so its diffs are others: "
            "nothing is compared")
        return
    wrong, expected = [], copies("HEAD")
    for path, (_mode, content) in expected.items():
        target = ROOT / path
        if target.is_symlink() or not target.is_file() or target.read_bytes() != content:
            wrong.append(path)
    wrong += sorted(path for path in committed() - expected.keys() if (ROOT / path).exists())
    with tempfile.TemporaryDirectory(dir=BUILD) as tmp:
        for one in (KERNEL, IPROUTE2):
            if one.dir.exists():
                format_tree(one, Path(tmp))
                wrong += differing(one, Path(tmp))
    if wrong:
        more = f" and {len(wrong) - 10} more" if len(wrong) > 10 else ""
        raise Die(f"not in step with the commits in build/: {', '.join(wrong[:10])}{more}; run "
                  "'make export' and commit the result, or 'make tree' if patches/ is newer")
    say(f"{len(expected)} files at kernel paths and patches/ agree with the commits in build/")


def differing(one: Tree, out: Path) -> list[str]:
    """Paths (from the repo's root) of a tree's patches that differ from those below out."""
    wrong = []
    for series in one.series:
        new, old = out / series.folder, series.dir
        names = {path.name for folder in (new, old) for path in folder.glob("0*")}
        wrong += [str((old / name).relative_to(ROOT)) for name in sorted(names)
                  if not ((new / name).exists() and (old / name).exists()
                          and (new / name).read_bytes() == (old / name).read_bytes())]
    return wrong


# -------------------------------------------------------------------- am

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


def main(what: str, sob: str = "", tree: str = "", series: str = "") -> None:
    """Do what the command line says.

    what: apply, export, check-copies or am. sob: NAME <MAIL>, to also export to
    build/export-signed, signed by this person. tree: the Linux source tree for am. series:
    folder or number of the last one for am (all).
    """
    BUILD.mkdir(exist_ok=True)
    {"apply": apply, "export": lambda: export(sob), "check-copies": check_copies,
     "am": lambda: am(tree, series)}[known("command", [what], (
         "apply", "export", "check-copies", "am"))[0]]()
