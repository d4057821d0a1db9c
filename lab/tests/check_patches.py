# SPDX-License-Identifier: GPL-2.0
"""What netdev asks of each patch alone, for lab check.

For every patch, on the commits before it: it builds net/sched with W=1 and no
warning, sparse and kernel-doc say nothing new about the files that it touches,
checkpatch is clean, the form is netdev's. What is built at each patch is the files that
the series touch, and after the last code of a series all of net/sched: by UML,
and with allmodconfig (see lab/tests/check.config) by x86_64, i386 and clang. i386 is there for
what only a link would show: 64-bit divisions by functions that the kernel does not have.
--fast compiles what the series touch, once for each, after its last code; at the other patches
the compiler only parses what they touch. It does not look for misspelt words.

build/check-verdicts.json keeps what was found of patches without a complaint, those of --fast in
a file of their own. A patch is not checked again while it, the commits before it, the compilers,
sparse and this file are the same.
"""

import functools
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from host.common import BUILD, JOBS, ROOT, Die, hash_files, kernel_env, make_args, run, say
from host.repo import IPROUTE2, KERNEL, Series, git, patch_author
from series.kernel import configure, preset

TREE = BUILD / "linux"
WORK = BUILD / "check-linux"
WORK_TC = BUILD / "check-iproute2"
OUT = BUILD / "check-um"
VERDICTS = {fast: BUILD / f"check-verdicts{'-fast' * fast}.json" for fast in (False, True)}
SPARSE = f"CHECK={BUILD}/sparse/sparse"
ALLMOD = ROOT / "lab/tests/check.config"
CLANG = "-19"  # as Debian suffixes the programs' names
COMPILERS = {  # column: (architecture, more arguments of make)
    "x86_64": ("x86_64", make_args()),
    "i386": ("i386", make_args()),
    "clang": ("x86_64", [f"-j{JOBS}", f"LLVM={CLANG}", f"CC=ccache clang{CLANG}",
                         f"HOSTCC=ccache clang{CLANG}"]),
}
FIELDS = {"NETWORKING [GENERAL]", "DOCUMENTATION"}  # sections of MAINTAINERS
DEPRECATED = dict(line.split("\t") for line in (ROOT / "lab/tests/deprecated.txt")
                  .read_text().splitlines()[2:])  # what a patch must not add to a .c or .h: why
DICTIONARY = "import codespell_lib, os; print(os.path.join(os.path.dirname(" \
    "codespell_lib.__file__), 'data', 'dictionary.txt'))"


def capture(cmd: Sequence, cwd: Path, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a command, return (status, stdout and stderr as one text)."""
    done = subprocess.run([str(c) for c in cmd], cwd=cwd, env=env, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def findings(text: str) -> set[str]:
    """Warnings of a tool as a set, without line numbers, to compare two commits."""
    return {re.sub(r":\d+(:\d+)?([: ])", r"\2", re.sub(rf"\S*/{WORK.name}/", "", line.strip()))
            for line in text.splitlines() if re.search(r"\b(warning|error)\b", line, re.I)}


# -------------------------------------------------------------- compiling

def checkout(work: Path, commit: str) -> None:
    """Bring a work tree to a commit; only files that differ are written."""
    git(work, "checkout", "-q", "--detach", "-f", commit)


def make_um(*args: str, out: Path = OUT) -> tuple[int, str]:
    """make for UML in the checked-out commit; (status, output)."""
    return capture(["make", "-s", "ARCH=um", f"O={out}", *make_args(JOBS + 1), *args],
                   WORK, kernel_env())


def allmod(column: str) -> list[str]:
    """Arguments of make for one compiler, configured for the checked-out commit."""
    arch, more = COMPILERS[column]
    out = BUILD / f"check-{column}"
    preset(WORK, out, ALLMOD, "allmodconfig", f"check-{column}", [f"ARCH={arch}", *more])
    return ["make", "-s", f"ARCH={arch}", f"O={out}", *more]


def complaints(status: int, text: str) -> list[str]:
    """What a build with W=1 said: its warnings, and whether it failed."""
    return sorted(findings(text)) + ["does not build: " + text.strip()[-200:]] * bool(status)


def compile_um(objects: Sequence[str], whole: bool, known: set[str]) -> dict[str, list[str]]:
    """Build objects with W=1 for UML and let sparse look at them; complaints of both.

    whole: then also all of net/sched. known: what sparse said of the commits before; what it
    says now is added. One make does both, as starting it takes longer than the rest. What is
    said is told apart by a second.
    """
    configure(WORK, OUT, name="check-config")
    status, text = make_um("W=1", "C=1", SPARSE, *objects)
    said, compiled = findings(text) - known, []
    if status or said:
        for o in objects:
            (OUT / o).unlink(missing_ok=True)
        compiled = complaints(*make_um("W=1", *objects))
        said -= set(compiled)
        known |= said
    if whole:
        compiled += complaints(*make_um("W=1", "net/sched/"))
    return {"um": compiled, "sparse": sorted(said)}


def compile_allmod(column: str, targets: Sequence[str]) -> list[str]:
    """Build targets with W=1 by one of COMPILERS; complaints.

    On i386, calls of libgcc's 64-bit functions are complaints, too.
    """
    cmd = allmod(column)
    said = complaints(*capture([*cmd, "W=1", *targets], WORK, kernel_env()))
    if column == "i386":
        objects = sorted((BUILD / "check-i386/net/sched").glob("*.o"))
        calls = re.findall(r"^(?:.*/)?([\w.-]+\.o):\s+U (__[a-z]+[dst]i\d)$",
                           capture(["nm", "-uA", *objects], WORK)[1], re.M)
        said += [f"{name} calls {symbol}(), which the kernel does not have"
                 for name, symbol in calls]
    return said


def is_code(path: str) -> bool:
    """Is it a file that the kernel is compiled from?"""
    return path.startswith(("net/", "include/", "drivers/", "lib/")) and \
        path.endswith((".c", ".h", "Kconfig", "Makefile"))


def targets(files: Sequence[str], whole: bool = False) -> list[str]:
    """What to build after a patch that touches files; whole: with all of net/sched."""
    files = {f for f in {*files, *touched("base", "HEAD")} if is_code(f) and f.endswith(".c")
             and (WORK / f).exists() and not (whole and f.startswith("net/sched/"))}
    return ["net/sched/"] * whole + sorted(str(Path(f).with_suffix(".o")) for f in files)


def parse(files: Sequence[str]) -> list[str]:
    """What the compiler says of C files that a patch touches, or whose headers it touches.

    It writes no object, so this takes a second for a file. The command is that by which make
    has built sch_cake.o with W=1.
    """
    headers = [Path(f).name for f in files if f.endswith(".h")]
    sources = [WORK / Path(o).with_suffix(".c") for o in targets(files)]
    chosen = [path for path in sources if str(path.relative_to(WORK)) in files
              or any(name in path.read_text() for name in headers)]
    words = re.match(r"savedcmd_\S+ := (.*?) -c -o ",
                     (OUT / "net/sched/.sch_cake.o.cmd").read_text())[1]
    words = re.sub(r"-Wp,-MMD,\S+", "-fsyntax-only", words)

    def one(path: Path) -> list[str]:
        status, text = capture(["sh", "-c", f"{words} {path}"], OUT, kernel_env())
        return complaints(status, text)

    with ThreadPoolExecutor(JOBS) as pool:
        return sorted(set().union(*pool.map(one, chosen)))


def compile_all(files: Sequence[str], whole: bool, fast: bool,
                known: set[str]) -> dict[str, list[str]]:
    """{column: complaints} of all compilers, two at a time; known: as for compile_um().

    fast: by UML's only, which builds and runs sparse after the last code of a series, and else
    only parses.
    """
    if not any(map(is_code, files)):
        return {}
    if fast and not whole:
        return {"um": parse(files)}
    jobs = {}
    if not fast:
        for column in COMPILERS:
            jobs[column] = functools.partial(compile_allmod, column, targets(files, whole))
    with ThreadPoolExecutor(2) as pool:
        um = pool.submit(compile_um, targets(files), whole and not fast, known)
        jobs = {column: pool.submit(job) for column, job in jobs.items()}
    return {**um.result(), **{column: job.result() for column, job in jobs.items()}}


# -------------------------------------------------- looking at the source

@functools.cache
def touched(before: str, after: str) -> list[str]:
    """Files that commits of the kernel tree touch."""
    return git(TREE, "diff", "--name-only", before, after).split()


def kernel_doc(files: Sequence[str]) -> set[str]:
    """What kernel-doc -Wall says about some source files."""
    there = [f for f in files
             if is_code(f) and f.endswith((".c", ".h")) and (WORK / f).exists()]
    tool = WORK / "scripts/kernel-doc"
    return findings(capture([tool, "-none", "-Wall", *there], WORK)[1]) if there else set()


def form(patch: Path, prefix: str, number: int, total: int) -> list[str]:
    """What netdev would say about the form of a patch file, as sentences."""
    head = patch.read_text().partition("\n---\n")[0]
    said = []
    subject = re.search(r"^Subject: (.*(?:\n .*)*)", head, re.M)
    subject = re.sub(r"\n ", " ", subject.group(1)) if subject else ""
    if not re.match(rf"\[{prefix} 0*{number}/0*{total}\] \S", subject):
        said.append(f"subject is '{subject}'")
    name, mail = patch_author(patch)
    if f"\nSigned-off-by: {name} <{mail}>" not in head:
        said.append("no Signed-off-by of the author")
    said += [f"'{line}' is not 'Fixes: <12 digits> (\"subject\")'"
             for line in re.findall(r"^Fixes:.*", head, re.M)
             if not re.fullmatch(r'Fixes: [0-9a-f]{12} \(".+"\)', line)]
    return said


def lacks_fixes(patch: Path, prefix: str, files: Sequence[str]) -> list[str]:
    """Whether a patch for net, which takes fixes only, says of what; as sentences."""
    if prefix == "PATCH net" and any(map(is_code, files)) and not re.search(
            r"^Fixes:", patch.read_text(), re.M):
        return ["a fix of code for net without a Fixes: line"]
    return []


def added(patch: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(file, line) for each line that a patch adds to files of some suffixes."""
    name = ""
    for line in patch.read_text().partition("\n---\n")[2].splitlines():
        name = line[6:] if line.startswith("+++ b/") else name
        if name.endswith(suffixes) and line.startswith("+") and not line.startswith("+++"):
            yield name, line[1:]


def api(patch: Path) -> list[str]:
    """Words that netdev does not want in new code, and where functions may be inline."""
    said = []
    for name, line in added(patch, (".c", ".h")):
        said += [f"{name}: {match[0]}: {why}" for pattern, why in DEPRECATED.items()
                 if (match := re.search(pattern, line))]
        if name.endswith(".c") and re.search(r"\binline\b", line):
            said.append(f"{name}: inline in a .c file")
        if name.endswith(".h") and re.match(
                r"static (?!inline|const|__always_inline).*\(", line):
            said.append(f"{name}: a function in a header that is not inline: {line}")
    return said + cut_short(patch)


def cut_short(patch: Path) -> list[str]:
    """Formats that an extack does not hold: NETLINK_MAX_FMTMSG_LEN is 80, the rest is cut off.

    Class minors have up to 4 digits, queues and groups 10, rates 12, names 15 characters.
    """
    said, widths, formats = [], {"x": 4, "u": 10, "llu": 12, "s": 15}, False
    for name, line in added(patch, (".c", ".h")):
        formats |= "NL_SET_ERR_MSG_FMT" in line
        if formats and (match := re.search(r'"(.*)"', line)):
            longest = re.sub(r"%(x|u|llu|s)", lambda of: "0" * widths[of[1]], match[1])
            said += [f"{name}: an extack is cut off: {match[1]}"] * (len(longest) >= 80)
        formats &= ";" not in line.rpartition('"')[2]
    return said


@functools.cache
def sections(file: str, _maintainers: str) -> set[str]:
    """The sections of MAINTAINERS that look after a file. _maintainers: a hash of that file."""
    text = capture([WORK / "scripts/get_maintainer.pl", "--no-git", "--no-git-fallback",
                    "--roles", "-f", file], WORK)[1]
    return set(re.findall(r"\((?:maintainer|supporter|odd fixer):(.*)\)", text))


def maintainers(files: Sequence[str], new: Sequence[str]) -> list[str]:
    """Files that no section of MAINTAINERS looks after; a new one needs its own.

    Sections for everything do not count, and for a new file those of a whole field do
    not either.
    """
    said = []
    for file in files:
        if file == "MAINTAINERS" or not (WORK / file).exists():
            continue
        known = sections(file, hash_files([WORK / "MAINTAINERS"]))
        if not known - {"THE REST"} - (FIELDS if file in new else set()):
            said.append(f"{file} has no maintainer of its own; add it to MAINTAINERS")
    return said


@functools.cache
def dictionary() -> str:
    """Path of codespell's list of misspelt words."""
    return subprocess.run(["/usr/bin/python3", "-c", DICTIONARY], text=True,
                          capture_output=True, check=False).stdout.strip()


def style(patch: Path, cover: str, fast: bool, *options: str) -> list[str]:
    """checkpatch's complaints, less those that the text of the cover letter explains.

    fast: without --codespell, which takes five times as long as all the rest.
    """
    allowed = re.findall(r"checkpatch: (\S+)", cover)
    words = () if fast else ("--codespell", f"--codespellfile={dictionary()}")
    cmd = [WORK / "scripts/checkpatch.pl", "--strict", "--no-summary", "--terse",
           "--show-types", *words, *options, patch]
    return [line.rpartition(f"{patch.name}:")[2]
            for line in capture(cmd, WORK)[1].splitlines()
            if (m := re.search(r"(?:WARNING|ERROR|CHECK):(\w+)", line))
            and m.group(1) not in allowed]


@functools.cache
def tools(fast: bool) -> str:
    """What all rows of a run are made by, and of which files, as one text."""
    files = [Path(__file__), OUT / ".config", BUILD / "sparse/sparse"]
    compilers = ["gcc"] if fast else ["gcc", f"clang{CLANG}"]
    versions = [capture([name, "--version"], ROOT)[1] for name in compilers]
    return "\n".join((hash_files(files if fast else [*files, ALLMOD]), *versions,
                      *touched("base", "HEAD")))


def key(patch: Path, cover: str, commit: str, fast: bool) -> str:
    """All that the row of a patch depends on, as a hash."""
    trees = git(TREE, "rev-parse", f"{commit}^{{tree}}", f"{commit}~^{{tree}}")
    said = (tools(fast), trees, hash_files([patch]), cover)
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def prepare(fast: bool) -> set[str]:
    """Build the base, which is checked out; what sparse says of it."""
    say(f"the base with W=1 (about {30 if fast else 60} s cold)")
    status, text = make_um("W=1", "prepare", *(targets([]) if fast else ["net/sched/"]))
    known = findings(make_um("W=1", "C=2", SPARSE, *targets([]))[1])
    for column in () if fast else COMPILERS:
        say(f"preparing {column} (about 40 s cold)")
        run([*allmod(column), "prepare"], f"check-{column}", cwd=WORK, env=kernel_env())
    if status:
        raise Die(f"the base does not build: {text.strip().splitlines()[-1]}")
    return known


def kernel_commits() -> dict[Path, str]:
    """{patch: its commit} of all kernel series, in order."""
    patches = KERNEL.patches()
    commits = git(TREE, "rev-list", "--reverse", "base..HEAD").split()
    if len(commits) != len(patches):
        raise Die(f"build/linux has {len(commits)} commits, patches/ {len(patches)}; "
                  "run make export")
    return dict(zip(patches, commits))


def check_patch(series: Series, patch: Path, commit: str, whole: bool, fast: bool,
                known: set[str]) -> dict[str, list[str] | None]:
    """{column: complaints} of a kernel patch, None where there is nothing to look at.

    whole, fast, known: as for compile_all().
    """
    patches = series.patches()
    number, total = patches.index(patch) + 1, len(patches)
    say(f"{series.folder} {number} of {total}")
    files = touched(f"{commit}~", commit)
    checkout(WORK, f"{commit}~")
    before_doc = kernel_doc(files)
    new = [f for f in files if not (WORK / f).exists()]
    checkout(WORK, commit)
    built = compile_all(files, whole, fast, known)
    source = any(is_code(f) and f.endswith((".c", ".h")) for f in files)
    return {
        "form": form(patch, series.prefix, number, total)
        + lacks_fixes(patch, series.prefix, files),
        "style": style(patch, series.cover_text(), fast, "--max-line-length=80"),
        "api": api(patch) if source else None,
        "maint": maintainers(files, new),
        "doc": sorted(kernel_doc(files) - before_doc) if source else None,
        **built}


def check_kernel(table: dict, fast: bool) -> None:
    """Check every kernel patch on its commit; fills table {patch: {column: complaints}}.

    From the base, and to the last commit, whatever of it has to be looked at.
    """
    commits = kernel_commits()
    configure(WORK, OUT, name="check-config")
    file = VERDICTS[fast]
    verdicts = json.loads(file.read_text()) if file.exists() else {}
    known, kept = None, {}
    for series in KERNEL.present():
        some = series.patches()
        code = [p for p in some if any(map(is_code, touched(f"{commits[p]}~", commits[p])))]
        for patch in some:
            name, commit = f"{patch.parent.name}/{patch.name}", commits[patch]
            now = key(patch, series.cover_text(), commit, fast)
            if now in verdicts:
                table[name] = kept[now] = verdicts[now]
                continue
            known = prepare(fast) if known is None else known
            table[name] = check_patch(series, patch, commit, patch in code[-1:], fast, known)
            if not any(table[name].values()):
                kept[now] = table[name]
                # A run may be ended: what was not looked at yet is kept as well
                file.write_text(json.dumps({**verdicts, **kept}, indent=1) + "\n")
    checkout(WORK, [*commits.values()][-1])
    file.write_text(json.dumps(kept, indent=1) + "\n")


# --------------------------------------------------------------- iproute2

def build_tc() -> tuple[int, str]:
    """Build lib and tc of the checked-out commit from nothing; (status, output).

    From nothing, because iproute2's makefiles do not follow headers.
    """
    if not (WORK_TC / "config.mk").exists():
        run(["./configure"], "check-tc", cwd=WORK_TC)
    sub = ["make", "-s", f"-j{JOBS + 1}", "CC=ccache gcc", "SUBDIRS=lib tc"]
    capture([*sub, "clean"], WORK_TC)
    return capture(sub, WORK_TC, kernel_env())


def man_lint(files: Sequence[str]) -> set[str]:
    """What mandoc says about some manual pages."""
    said = set()
    for file in files:
        text = capture(["mandoc", "-T", "lint", "-W", "warning", WORK_TC / file], WORK_TC)[1]
        said |= {re.sub(r"^.*?:\d+:\d+: ", f"{file}: ", line) for line in text.splitlines()}
    return said


def check_iproute2(table: dict, fast: bool) -> None:
    """Check every iproute2 patch; fills table."""
    tree, series = IPROUTE2, IPROUTE2.series[0]
    if not fast:
        if not (WORK_TC / ".git").exists():
            shutil.rmtree(WORK_TC, ignore_errors=True)
            tree.git("worktree", "prune")
            tree.git("worktree", "add", "-f", "--detach", WORK_TC, "base")
        checkout(WORK_TC, "base")
        before = findings(build_tc()[1])
    patches = series.patches()
    commits = tree.git("rev-list", "--reverse", "base..HEAD").split()
    if len(commits) != len(patches):
        raise Die(f"build/iproute2 has {len(commits)} commits, patches/iproute2 "
                  f"{len(patches)}; run make export")
    for number, (patch, commit) in enumerate(zip(patches, commits), 1):
        say(f"iproute2 {number} of {len(patches)}")
        said = {"form": form(patch, series.prefix, number, len(patches)),
                "style": style(patch, series.cover_text(), fast, "--no-tree",
                               "--max-line-length=100")}
        if not fast:
            pages = [f for f in tree.git("diff", "--name-only", f"{commit}~", commit).split()
                     if re.search(r"\.\d$", f)]
            checkout(WORK_TC, f"{commit}~")
            old = man_lint(pages)
            checkout(WORK_TC, commit)
            status, text = build_tc()
            said["tc"] = sorted(findings(text) - before) + ["does not build"] * bool(status)
            said["man"] = sorted(man_lint(pages) - old) if pages else None
        table[f"{patch.parent.name}/{patch.name}"] = said
