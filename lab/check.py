"""make check: what must hold for each patch alone.

For every commit from the base to the end of the series: net/sched builds with
W=1 and no warning; sparse and kernel-doc say nothing new about the files it
touches; checkpatch --strict --codespell is clean; the form is netdev's. Writes
results/check.json and prints one row a patch.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from common import (
    BUILD,
    JOBS,
    PATCHES,
    ROOT,
    Die,
    git,
    guard,
    kernel_env,
    make_args,
    run,
    say,
)
from kernel import configure

TREE = BUILD / "linux"
WORK = BUILD / "check-linux"
OUT = BUILD / "check-um"
NOSCHED = BUILD / "check-nosched"
SPARSE = BUILD / "sparse" / "sparse"
SERIES = (("1-shared-state", ROOT / "cover-letter.txt"),
          ("2-rate-group", PATCHES / "2-rate-group" / "cover-letter.txt"))
CHECKS = ("form", "W=1", "sparse", "doc", "style")
DICTIONARY = "import codespell_lib, os; print(os.path.join(os.path.dirname(" \
    "codespell_lib.__file__), 'data', 'dictionary.txt'))"


def capture(cmd, cwd, env=None):
    """Run a command, return (status, stdout and stderr as one text)."""
    done = subprocess.run([str(c) for c in cmd], cwd=cwd, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def prepare():
    """A tree of its own, the base's files linked, git only writes what differs."""
    if not (WORK / ".git").exists():
        say("making a tree to check in (about 5 s)")
        shutil.rmtree(WORK, ignore_errors=True)  # half made, then interrupted
        git(TREE, "worktree", "prune")
        git(TREE, "worktree", "add", "-f", "--detach", WORK, "base")
        run(["cp", "-aln", f"{BUILD / 'linux-base'}/.", f"{WORK}/"], "check-tree", ok=(0, 1))
    git(WORK, "checkout", "-q", "--detach", "-f", "base")
    configure(WORK, OUT, name="check-config")


def make(*args, out=OUT):
    """make in the checked-out commit; (status, output)."""
    return capture(["make", "-s", "ARCH=um", f"O={out}", *make_args(JOBS + 1), *args],
                   WORK, kernel_env())


def findings(text):
    """Warnings of a tool as a set, without line numbers, to compare two commits."""
    return {re.sub(r":\d+(:\d+)?:", ":", line.strip()).replace(str(WORK) + "/", "")
            for line in text.splitlines() if re.search(r"\b(warning|error)\b", line, re.I)}


def sparse(files):
    """What sparse says about some source files."""
    objects = [str(Path(f).with_suffix(".o")) for f in files if f.endswith(".c")]
    objects = [o for o in objects if (WORK / Path(o).with_suffix(".c")).exists()]
    for o in objects:
        (OUT / o).unlink(missing_ok=True)
    return findings(make("C=1", f"CHECK={SPARSE}", *objects)[1]) if objects else set()


def kernel_doc(files):
    """What kernel-doc -Wall says about some source files."""
    there = [f for f in files if f.endswith((".c", ".h")) and (WORK / f).exists()]
    tool = WORK / "scripts/kernel-doc"
    if not there:
        return set()
    return findings(capture([tool, "-none", "-Wall", *there], WORK)[1])


def form(patch, number, total):
    """What netdev would say about the form of a patch file, as sentences."""
    text = patch.read_text()
    head, _, body = text.partition("\n---\n")
    said = []
    subject = re.search(r"^Subject: (.*(?:\n .*)*)", head, re.M)
    subject = re.sub(r"\n ", " ", subject.group(1)) if subject else ""
    if not re.match(rf"\[PATCH net-next 0*{number}/0*{total}\] \S", subject):
        said.append(f"subject is '{subject}'")
    if not re.search(r"^Signed-off-by: ", head, re.M):
        said.append("no Signed-off-by")
    name = None
    for line in body.splitlines():
        name = line[6:] if line.startswith("+++ b/") else name
        if name and name.endswith(".c") and re.match(r"\+.*\binline\b", line):
            said.append(f"inline in {name}")
        if name and name.endswith((".c", ".h")) and line.startswith("+") \
                and len(line[1:].expandtabs(8)) > 80 and '"' not in line:
            said.append(f"more than 80 columns in {name}")
    return said


def style(patch, cover):
    """checkpatch's complaints, less those that the cover letter explains."""
    allowed = re.findall(r"checkpatch: (\S+)", cover.read_text())
    dictionary = subprocess.run(["/usr/bin/python3", "-c", DICTIONARY], text=True,
                                capture_output=True, check=False).stdout.strip()
    cmd = [WORK / "scripts/checkpatch.pl", "--strict", "--no-summary", "--terse", "--show-types",
           "--codespell", f"--codespellfile={dictionary}", "--max-line-length=80", patch]
    lines = capture(cmd, WORK)[1].splitlines()
    return [line for line in lines
            if (m := re.search(r"(?:WARNING|ERROR|CHECK):(\w+)", line))
            and m.group(1) not in allowed]


def without_net_sched(series_files):
    """sch_mq.c and sch_generic.c must not need the API when NET_SCHED=n."""
    fragment = BUILD / "nosched.config"
    fragment.write_text("CONFIG_NET=y\nCONFIG_INET=y\n# CONFIG_NET_SCHED is not set\n")
    configure(WORK, NOSCHED, fragments=(fragment,), name="check-nosched")
    status, text = make("W=1", "net/sched/", out=NOSCHED)
    if status or findings(text):
        return text.strip().splitlines()[-3:]
    symbols = capture(["nm", NOSCHED / "net/sched/built-in.a"], BUILD)[1]
    return [s for s in symbols.splitlines() if "qdisc_shared" in s]


def main():
    """Check every patch; Die names the first that fails."""
    prepare()
    series = [(sorted((PATCHES / folder).glob("*.patch")), cover)
              for folder, cover in SERIES]
    patches = [patch for some, _ in series for patch in some]
    commits = git(TREE, "rev-list", "--reverse", "base..HEAD").split()
    if len(commits) != len(patches):
        raise Die(f"build/linux has {len(commits)} commits, patches/ {len(patches)}; "
                  "run make export")
    say(f"building net/sched of the base with W=1 (about 60 s cold), then of "
        f"{len(patches)} patches")
    status, text = make("W=1", "prepare", "net/sched/")
    if status:
        raise Die(f"the base does not build: {text.strip().splitlines()[-1]}")
    table, failed = {}, []
    for some, _ in series:
        if len(some) > 15:
            failed.append(f"{len(some)} patches, netdev takes at most 15")
    places = [(number, len(some), cover) for some, cover in series
              for number in range(1, len(some) + 1)]
    print(f"{'patch':<52}" + "".join(f"{c:>8}" for c in CHECKS))
    for (number, total, cover), commit, patch in zip(places, commits, patches):
        files = git(TREE, "diff", "--name-only", f"{commit}~", commit).split()
        git(WORK, "checkout", "-q", "--detach", "-f", f"{commit}~")
        before_sparse, before_doc = sparse(files), kernel_doc(files)
        git(WORK, "checkout", "-q", "--detach", "-f", commit)
        configure(WORK, OUT, name="check-config")
        status, text = make("W=1", "net/sched/")
        said = {
            "form": form(patch, number, total),
            "W=1": sorted(findings(text)) + (["does not build"] if status else []),
            "sparse": sorted(sparse(files) - before_sparse),
            "doc": sorted(kernel_doc(files) - before_doc),
            "style": style(patch, cover),
        }
        table[f"{patch.parent.name}/{patch.name}"] = said
        print(f"{patch.name[:50]:<52}"
              + "".join(f"{'FAIL' if said[c] else 'ok':>8}" for c in CHECKS), flush=True)
        failed += [f"{patch.name}: {check}: {line}" for check in CHECKS for line in said[check]]
    say("building net/sched without CONFIG_NET_SCHED")
    failed += [f"NET_SCHED=n: {line}" for line in without_net_sched(patches)]
    os.makedirs(ROOT / "results", exist_ok=True)
    (ROOT / "results/check.json").write_text(json.dumps(
        {"what": "complaints by patch and check", "patches": table}, indent=1) + "\n")
    for line in failed:
        print("FAIL " + line, file=sys.stderr)
    rows = len(patches) * len(CHECKS) + 1
    print(f"{rows - len(failed)} passed, {len(failed)} failed")
    if failed:
        raise Die(f"{len(failed)} per-patch checks failed, the first: {failed[0]}")


if __name__ == "__main__":
    guard(main)
