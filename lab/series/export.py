# SPDX-License-Identifier: GPL-2.0
"""make export: commits in build/linux and build/iproute2 become patches/ and files of this repo.

Patches are written only once they have been applied to the base again, and have given the same
content. check_copies() says what differs.
"""

import re
import shutil
import tempfile
from email.header import Header
from email.utils import parseaddr
from pathlib import Path

from host.common import BUILD, ROOT, Die, base_conf, say
from host.repo import IPROUTE2, KERNEL, PATCHES, Series, Tree, git_env, identity, patch_author

from series.copies import committed, copies, remove, write, write_links

# Not *.patch, so that "git am patches/<series>/*.patch" does not stop at it.
COVER = "0000-cover-letter.txt"
MANY = 300  # files: more than any series touches


# ------------------------------------------------------------------- export

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
    must_be_exportable(one)
    stamp = one.stamp
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


def must_be_exportable(one: Tree) -> None:
    """Die, with what to do, if a tree is in a state that is not to become patches.

    What it leaves out is said.
    """
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


def install(new: Path, old: Path) -> int:
    """Make folder old hold the patches of folder new; the number of files that changed."""
    names = {path.name for path in new.glob("0*")}
    gone = [path for path in old.glob("0*") if path.name not in names]
    for path in gone:
        path.unlink()
    if names:
        old.mkdir(parents=True, exist_ok=True)
    return len(gone) + sum(write(old / name, (new / name).read_bytes()) for name in names)


# ------------------------------------------------------------------ patches

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


# ------------------------------------------------------- in another's name

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


# ------------------------------------------------------------- check-copies

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
