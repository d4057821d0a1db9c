# SPDX-License-Identifier: GPL-2.0
"""What netdev asks of a series as a whole, and what our own files are held to.

jobs() gives the checks; each returns (what it looked at, complaints). They run in
build/check-linux, which check leaves at the last commit.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from host import setup
from host.common import BUILD, ROOT, Die, kernel_env, parallel
from host.repo import IPROUTE2, KERNEL, Series, am_patch, git
from series import am
from series.base import version
from series.export import COVER
from series.kernel import configure
from sim import fuzz

from tests import check_patches as check

BASE = BUILD / "linux-base"
NOSCHED = BUILD / "check-nosched"
VENV = BUILD / "venv/bin"
CHECK_VENV = BUILD / "check-venv/bin"
MOST = 10  # patches of one series; netdev takes 15
LETTER = 70  # lines of what a cover letter is made from
LINE = 100  # columns of our Python
RULES = "E,F,W,I,B,C4,UP,SIM,PIE,PLE,PLW"
COCCI_SECONDS = 300  # for one semantic patch
OUT_OF_TIME = {124, 137}  # exit statuses of timeout


def new(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """Lines that there are more of than before, sorted."""
    return sorted((Counter(after) - Counter(before)).elements())


def touched(suffixes: str | tuple[str, ...]) -> list[str]:
    """Files of some suffixes that the series touch."""
    return [f for f in check.touched("base", "HEAD") if f.endswith(suffixes)]


def base_text(path: str) -> str:
    """A file of the base as text, empty if the series add it."""
    return git(KERNEL.dir, "show", f"base:{path}", check=False) or ""


def every_series() -> list[Series]:
    """The series that have patches, of the kernel and of iproute2."""
    return KERNEL.present() + IPROUTE2.present()


# ----------------------------------------------------------------- fast

def form() -> tuple[str, list[str]]:
    """Number of patches, and the cover letters."""
    counts = [f"{len(series.patches())} in {series.folder}" for series in every_series()]
    return (f"{', '.join(counts)}, each with a cover letter",
            [line for series in every_series() for line in series_form(series)])


def series_form(series: Series) -> list[str]:
    """What netdev would say about the form of a series, as sentences."""
    said, count = [], len(series.patches())
    if count > MOST:
        said.append(f"{count} patches, more than {MOST}")
    letter = series.dir / COVER
    text = letter.read_text() if letter.exists() else ""
    if not re.search(rf"^Subject: \[{series.prefix} 0+/{count}\] \S", text, re.M):
        said.append("no cover letter with a subject")
    if "*** " in text or not re.search(r"^ \d+ files? changed", text, re.M):
        said.append("the cover letter is not filled in")
    lines = len(series.cover_text().strip().splitlines())
    if lines > LETTER:
        said.append(f"a cover letter of {lines} lines, more than {LETTER}")
    return [f"{series.folder}: {line}" for line in said]


def applies() -> tuple[str, list[str]]:
    """git am onto the base: no fuzz, and the tree that the checks looked at."""
    head, said = git(check.WORK, "rev-parse", "HEAD"), []
    check.checkout(check.WORK, "base")
    for patch in KERNEL.patches():
        good, output = am_patch(check.WORK, patch)
        if not good:
            said = [f"{patch.name}: {line}" for line in output.splitlines()
                    if line.startswith("error: ")] or [f"{patch.name}: git am failed"]
            break
    else:
        said = git(check.WORK, "diff", "--stat", head, "HEAD").splitlines()[-1:]
    check.checkout(check.WORK, head)
    return f"onto Linux {version(KERNEL.dir)}, without fuzz", said


def without_net_sched() -> tuple[str, list[str]]:
    """sch_mq.c and sch_generic.c must not need the API when NET_SCHED=n."""
    fragment = BUILD / "nosched.config"
    fragment.write_text("CONFIG_NET=y\nCONFIG_INET=y\n# CONFIG_NET_SCHED is not set\n")
    configure(check.WORK, NOSCHED, fragments=(fragment,), name="check-nosched")
    said = check.complaints(*check.make_um("W=1", "net/sched/", out=NOSCHED))
    symbols = check.capture(["nm", NOSCHED / "net/sched/built-in.a"], BUILD)[1]
    return "W=1; nothing of the API is used", said + [
        line for line in symbols.splitlines() if "qdisc_shared" in line]


def yamllint() -> tuple[str, list[str]]:
    """yamllint on the netlink descriptions that the series touch."""
    def lint(text):
        out = check.capture([VENV / "yamllint", "-f", "parsable", text], BUILD)[1]
        return [re.sub(r"^.*?:\d+:\d+: ", "", line) for line in out.splitlines()]

    said, old = [], BUILD / "check-base.yaml"
    for spec in touched(".yaml"):
        old.write_text(base_text(spec) + "\n")
        said += [f"{spec}: {line}" for line in new(lint(old), lint(check.WORK / spec))]
    return " ".join(map(os.path.basename, touched(".yaml"))), said


def shellcheck() -> tuple[str, list[str]]:
    """shellcheck on this repo's shell scripts."""
    files = [ROOT / f for f in git(ROOT, "ls-files", "lab", ".ci").split()]
    scripts = [f for f in files
               if re.match(rb"#!.*\b(ba|da)?sh\b", f.read_bytes().partition(b"\n")[0])]
    # SC1091: a guest reads a file that is written when it boots.
    text = check.capture([VENV / "shellcheck", "-f", "gcc", "-e", "SC1091", *scripts], ROOT)[1]
    return (" ".join(str(s.relative_to(ROOT)) for s in scripts),
            [line.replace(f"{ROOT}/", "") for line in text.splitlines()])


def ruff() -> tuple[str, list[str]]:
    """ruff on lab/."""
    cmd = [VENV / "ruff", "check", "--isolated", "--no-cache", "--quiet", "--line-length", LINE,
           "--target-version", "py311", "--select", RULES, "--ignore", "B008,B905",
           "--output-format", "concise", ROOT / "lab"]
    status, text = check.capture(cmd, ROOT)
    said = [line.replace(f"{ROOT}/", "") for line in text.splitlines()]
    return f"lab: {RULES}", said or ["ruff failed"] * bool(status)


# ----------------------------------------------------------------- whole

def coccicheck() -> tuple[str, list[str]]:
    """The tree's semantic patches on the files that the series touch; new reports count."""
    files = [f for f in touched((".c", ".h")) if check.is_code(f)]
    rules = [r for r in sorted((check.WORK / "scripts/coccinelle").rglob("*.cocci"))
             if re.search(r"^virtual\s.*\breport\b", text := r.read_text(), re.M)
             and "ocaml" not in text]

    def reports(rule, where):
        options = re.findall(r"^// Options: *(.*)$", rule.read_text(), re.M)
        cmd = ["timeout", "-k1", COCCI_SECONDS, "spatch", "-D", "report", "--no-show-diff",
               "--very-quiet", "--cocci-file", rule, *" ".join(options).split(),
               "-I", "include"]
        there = [f for f in files if (where / f).exists()]
        status, text = check.capture([*cmd, *there], where)
        if status not in {0, *OUT_OF_TIME}:  # all at once may be too much for its stack
            each = [check.capture([*cmd, f], where) for f in there]
            status, text = max(one for one, _ in each), "\n".join(one for _, one in each)
        return status, [re.sub(r":\d+(:\d+)?(-\d+)?:", ":", line).replace(f"{where}/", "")
                        for line in text.splitlines() if re.match(r"\S+\.[ch]:\d", line)]

    def compare(rule):
        after = reports(rule, check.WORK)
        return rule, reports(rule, BASE) if any(after) else after, after

    found = list(parallel(compare, rules))
    said = [f"{rule.name}: {line}" for rule, before, after in found
            for line in new(before[1], after[1])]
    slow = [rule.name for rule, before, after in found if OUT_OF_TIME & {before[0], after[0]}]
    failed = [rule.name for rule, before, after in found
              if {before[0], after[0]} - OUT_OF_TIME - {0}]
    said += [f"{name}: spatch fails; run it by hand" for name in failed]
    return (f"{len(rules) - len(slow)} semantic patches, {len(files)} files"
            + f"; not {' '.join(slow)}: over {COCCI_SECONDS} s" * bool(slow)), said


def ynl() -> tuple[str, list[str]]:
    """The netlink descriptions fit their schema, generate C that compiles, nothing is stale."""
    specs, said = touched(".yaml"), []
    env = dict(kernel_env(), PATH=f"{VENV}:{os.environ['PATH']}")
    tools = check.WORK / "tools/net/ynl"
    for spec in specs:
        cli = ["python3", "-B", tools / "pyynl/cli.py", "--spec", spec, "--validate"]
        made = f"{Path(spec).stem}-user"
        for suffix in "cho":
            (tools / f"generated/{made}.{suffix}").unlink(missing_ok=True)
        for job in (cli, ["make", "-s", "-C", tools / "generated", f"{made}.o"]):
            status, text = check.capture(job, check.WORK, env)
            if status or check.findings(text):
                said.append(f"{spec}: {' '.join(text.split())[-200:] or status}")
    status, text = check.capture(["tools/net/ynl/ynl-regen.sh", "-f"], check.WORK, env)
    made = text.count("GEN ")
    stale = git(check.WORK, "diff", "--name-only").splitlines()
    check.checkout(check.WORK, git(check.WORK, "rev-parse", "HEAD"))
    if status or not made:
        said.append(f"ynl-regen.sh failed: {text.strip()[-100:]}")
    return (f"{len(specs)} by schema, its C compiles; {made} files as regenerated",
            said + [f"{file} is not what its description gives" for file in stale])


def b4() -> tuple[str, list[str]]:
    """b4 takes each series as mail."""
    said, counts = [], []
    home = BUILD / "check-b4"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    env = dict(os.environ, HOME=str(home), XDG_CACHE_HOME=str(home), XDG_DATA_HOME=str(home),
               XDG_CONFIG_HOME=str(home))
    for series in every_series():
        mails = []
        for number, file in enumerate([series.dir / COVER, *series.patches()]):
            head, gap, rest = file.read_text().partition("\n\n")
            reply = "\nIn-Reply-To: <0@series>\nReferences: <0@series>" * bool(number)
            mails.append(f"{head}\nTo: netdev@localhost\nMessage-Id: <{number}@series>{reply}"
                         f"{gap}{rest}\n")
        mbox, out = home / f"{series.folder}.mbox", home / series.folder
        mbox.write_text("".join(mails))
        cmd = [CHECK_VENV / "b4", "--offline-mode", "-n", "am", "-k", "-m", mbox, "-o", out]
        status, text = check.capture(cmd, home, env)
        ready = next(out.glob("*.mbx"), None) if out.exists() else None
        taken = len(re.findall(r"^From git@z", ready.read_text(), re.M)) if ready else 0
        counts.append(str(taken))
        said += [f"{series.folder}: {line.strip()}" for line in text.splitlines()
                 if re.search(r"error|missing|not found", line, re.IGNORECASE)]
        if status or taken != len(series.patches()):
            said.append(f"{series.folder}: b4 took {taken} of {len(series.patches())}")
    return f"takes {', '.join(counts)} patches from an mbox", said


def three_way() -> tuple[str, list[str]]:
    """The series onto the other kernels that the base's archive offers."""
    told, said = [], []
    for package in setup.neighbours():
        release = package.name.split("_")[1].partition("-")[0]
        source, repo = BUILD / f"linux-{release}", BUILD / f"am-linux-{release}"
        if not (repo / ".git").exists() or not git(repo, "tag", check=False):
            shutil.rmtree(source, ignore_errors=True)
            setup.unpack(package, source, "check-neighbour", 25).rename(source)
            am.copy_subset(source)
            shutil.rmtree(source)
        git(repo, "checkout", "-q", "-f", "--detach", "base")
        try:
            merged = am.am_all(repo, KERNEL.patches())
            told.append(f"onto {release}: {len(merged)} of {len(KERNEL.patches())} by a merge")
        except Die as err:
            told.append(f"onto {release}")
            said.append(str(err))
    return ", ".join(told) or "the archive offers no other version", said


def htmldocs() -> tuple[str, list[str]]:
    """Sphinx on Documentation/networking; new warnings that name our files count."""
    pages = [f for f in touched(".rst") if f.startswith("Documentation/networking/")]
    names = [f for f in check.touched("base", "HEAD") if f.endswith((".rst", ".c", ".h"))]
    out = BUILD / "check-docs"
    env = dict(kernel_env(), PATH=f"{CHECK_VENV}:{os.environ['PATH']}")

    def warnings(commit):
        check.checkout(check.WORK, commit)
        for page in pages:  # so that Sphinx reads it again
            for doctree in out.rglob(f"{Path(page).stem}.doctree"):
                doctree.unlink()
        status, text = check.capture(["make", "-s", f"O={out}", "SPHINXDIRS=networking",
                                      "SPHINXOPTS=-j1", "htmldocs"], check.WORK, env)
        text = text.replace(f"{check.WORK}/", "")
        return [re.sub(r":\d+:", ":", line) for line in text.splitlines()
                if any(name in line for name in names) or (status and "rror" in line)]

    said = new(warnings("base"), warnings(KERNEL.git("rev-parse", "HEAD")))
    said += [f"{page} gave no page" for page in pages
             if not list(out.rglob(f"{Path(page).stem}.html"))]
    return " ".join(map(os.path.basename, pages)), said


def kunit() -> tuple[str, list[str]]:
    """The KUnit cases of the rate group after each patch that touches it, in user space."""
    part, done, said = fuzz.Part("group", BUILD / "check-kunit"), set(), []
    names = (*fuzz.FILES[part.name], fuzz.TEST)
    for commit in KERNEL.git("rev-list", "--reverse", "base..HEAD").split():
        blobs = [KERNEL.git("rev-parse", "-q", "--verify", f"{commit}:{name}", check=False)
                 for name in names]
        if not all(blobs) or tuple(blobs) in done:
            continue
        done.add(tuple(blobs))
        for name in names:
            path = part.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(KERNEL.git("show", f"{commit}:{name}", raw=True).decode())
        subject = KERNEL.git("log", "-1", "--format=%s", commit).strip()
        try:
            said += [f"{subject}: {line}" for line in fuzz.ask(fuzz.kunit(part, ""))
                     if line.startswith("FAIL")]
        except Die as err:
            said.append(f"{subject}: {err}")
    return f"the rate group, after each of {len(done)} patches", said


def jobs(fast: bool) -> dict[str, Callable[[], tuple[str, list[str]]]]:
    """{name of a check: function that makes it}, in the order of the table."""
    checks = {"form": form, "git am": applies, "KUnit": kunit, "NET_SCHED=n": without_net_sched,
              "yamllint": yamllint, "shellcheck": shellcheck, "ruff": ruff}
    if not fast:
        checks.update({"coccicheck": coccicheck, "YNL": ynl, "b4": b4, "3-way": three_way,
                       "htmldocs": htmldocs})
    return checks
