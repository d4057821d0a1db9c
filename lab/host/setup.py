#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Install, download and build what the lab needs, as pinned in base.conf.

Does nothing, fast, for what is there already.  Downloads go to the cache
($QDISC_CACHE or ~/.cache/qdisc-shared) through apt with private lists; a file
of the right SHA-256 put into its downloads folder by hand serves as well.
KERNEL=/path/to/linux or LINUX_TARBALL=/path/to/linux.tar.xz in the environment replace
the kernel's download.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from host.common import (
    BUILD,
    CACHE,
    JOBS,
    ROOT,
    Die,
    base_conf,
    known,
    made_of,
    need_disk,
    run,
    say,
    sha256,
)
from host.repo import IPROUTE2

DOWNLOADS = CACHE / "downloads"
KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg",
            "/usr/share/keyrings/debian-archive-keyring.pgp")

# {step: {Debian package: what shows that it is there}}; "packages" is for all that the lab does
PACKAGES = tomllib.loads((ROOT / "lab/host/packages.toml").read_text())


# ------------------------------------------------------------------ host

def wrong_host(text: str) -> str:
    """What to do on a system that the lab does not know; "" on Debian and what is like it.

    text: of /etc/os-release.
    """
    fields = dict(line.split("=", 1) for line in text.replace('"', "").splitlines() if "=" in line)
    names = {fields.get("ID"), *fields.get("ID_LIKE", "").split()}
    if "debian" in names and "ubuntu" not in names:
        return ""
    return (f"this is {fields.get('PRETTY_NAME', 'no system that is known')}, and the lab takes "
            "its packages and the kernel from Debian: run it in a container, as the "
            "Containerfile in the top folder says")


def check_host() -> None:
    """Die on a host that has not what the lab takes from Debian."""
    path = Path("/etc/os-release")
    if complaint := wrong_host(path.read_text() if path.exists() else ""):
        raise Die(complaint)


# -------------------------------------------------------------- packages

def present(probe: str) -> bool:
    """Is a program (also in sbin), a file or a Python module there?"""
    if probe.startswith("/"):
        return os.path.exists(probe)
    if probe.startswith("module "):
        return importlib.util.find_spec(probe[7:]) is not None
    return shutil.which(probe, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None


def packages(wanted: dict[str, str]) -> None:
    """Install missing packages through apt, as root or through sudo; Die otherwise.

    wanted: {package: probe}, as in PACKAGES.
    """
    missing = [name for name, probe in wanted.items() if not present(probe)]
    if not missing:
        return
    names = " ".join(missing)
    if not shutil.which("apt-get"):
        raise Die(f"these are missing and there is no apt-get to install them: {names} "
                  "(names of Debian packages); install their like and run this again")
    root = [] if os.geteuid() == 0 else ["sudo"]
    if root and not shutil.which("sudo"):
        raise Die(f"these packages are missing and this is neither root nor is there sudo: "
                  f"run 'apt-get install {names}' as root, then this again")
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    install = [*root, "apt-get", "install", "-y", "--no-install-recommends", *missing]
    any_status = range(-255, 256)
    if run(install, "packages", f"installing {names}", 60, env=env, ok=any_status):
        run([*root, "apt-get", "update"], "apt-update", "updating apt's lists, then once more", 20,
            env=env)
        run(install, "packages", f"installing {names}", 60, env=env)
    still = [name for name in missing if not present(wanted[name])]
    if still:
        raise Die(f"apt-get installed them, yet {' '.join(still)} cannot be found; "
                  "see build/logs/packages.log")


# ------------------------------------------------------------- downloads

def archive() -> tuple[str, str]:
    """(URI of the Debian archive that this system uses, options for apt's list of sources).

    From the system's own settings; Die where it has none.
    """
    uri, keyring = archive_uri(), next(filter(os.path.exists, KEYRINGS), None)
    if not uri or not keyring:
        raise Die("this system has no Debian archive to download from; use Debian, or put "
                  f"the files named in base.conf into {DOWNLOADS}, and for the kernel give "
                  "KERNEL=/path/to/linux or LINUX_TARBALL=/path/to/linux.tar.xz")
    return uri, f"signed-by={keyring}"


def archive_uri() -> str | None:
    """URI of the Debian archive that this system uses, None if unknown."""
    def lines(*cmd):
        done = subprocess.run(["apt-get", *cmd], capture_output=True, text=True, check=False)
        return done.stdout.splitlines()

    for line in lines("indextargets", "--format", "$(ORIGIN)|$(REPO_URI)", "Created-By: Packages"):
        origin, _, uri = line.partition("|")
        if origin == "Debian" and "security" not in uri:
            return uri
    for line in lines("--print-uris", "update"):        # no lists yet
        match = re.match(r"'([^']*debian[^']*?)/?dists/", line)
        if match and "security" not in match[1]:
            return match[1]
    return None


class Apt:
    """A private apt: own state, cache and source list for one suite, below the cache.

    kind is deb or deb-src.  The system's configuration is read, never changed,
    and its hooks are left out. A mirror that is behind will do, as base.conf pins the hashes.
    """

    def __init__(self, suite: str, kind: str) -> None:
        uri, trust = archive()
        self.suite, self.dir = suite, CACHE / "apt" / f"{suite}-{kind}"
        for folder in (self.dir / "lists/partial", self.dir / "archives/partial",
                       self.dir / "files", DOWNLOADS):
            folder.mkdir(parents=True, exist_ok=True)
        need_disk(1, CACHE)
        (self.dir / "sources.list").write_text(f"{kind} [{trust}] {uri} {suite} main\n")
        self.conf = self.dir / "apt.conf"
        text = (ROOT / "lab/host/apt.conf").read_text()
        self.conf.write_text(text.replace("@DIR@", str(self.dir)))

    def get(self, *words: Any) -> bool:
        """Run apt-get in the files folder; True when it succeeded."""
        return run(["apt-get", "-c", self.conf, *words], "apt", cwd=self.dir / "files",
                   ok=range(-255, 256)) == 0

    def update(self, otherwise: str = "run this again") -> None:
        """Read the list of packages; Die if that can't be had, with what to do otherwise."""
        if not self.get("update"):
            raise Die(f"cannot read the Debian archive's list of {self.suite} (see "
                      f"build/logs/apt.log); check the network, or {otherwise}")

    def ask(self, *words: str) -> str:
        """What apt-cache says."""
        return subprocess.run(["apt-cache", "-c", str(self.conf), *words], text=True,
                              capture_output=True, check=False).stdout

    def kernels(self) -> list[str]:
        """Packages of the suite with sources of a kernel."""
        return re.findall(r"(?m)^linux-source-\d+\.\d+$", self.ask("pkgnames"))

    def download(self, package: str, version: str | None = None,
                 binary: bool = True) -> Path | None:
        """Fetch one package (version None: the newest); the file's path, or None."""
        shutil.rmtree(self.dir / "files")
        (self.dir / "files").mkdir()
        what = package + (f"={version}" if version else "")
        words = ["download"] if binary else ["source", "--download-only", "--tar-only"]
        if not self.get(*words, what):
            return None
        files = [p for p in (self.dir / "files").iterdir() if p.suffix != ".dsc"]
        return Path(shutil.move(files[0], DOWNLOADS / files[0].name)) if files else None


def verified(path: Path, digest: str) -> bool:
    """Is the file there and intact?  A damaged one is deleted: Die says so.

    A stamp beside the file spares reading it again while size and time match.
    """
    if not path.exists():
        return False
    stat, stamp = path.stat(), path.with_name(path.name + ".ok")
    mark = f"{digest} {stat.st_size} {stat.st_mtime_ns}\n"
    if made_of(stamp, mark):
        return True
    found = sha256(path)
    if found != digest:
        path.unlink()
        stamp.unlink(missing_ok=True)
        raise Die(f"{path} was damaged or is not what base.conf pins (SHA-256 {found[:12]}... "
                  f"instead of {digest[:12]}...) and has been deleted; run this again to fetch "
                  "it anew")
    stamp.write_text(mark)
    return True


def fetch(key: str) -> Path:
    """Path of base.conf's <key>_FILE in the cache, downloaded if need be.

    When the archive no longer has the pinned version, the newest one of the suite (of
    the kernel: with the same first number) is taken instead, and said so loudly; Die
    when nothing works.
    """
    conf = base_conf()
    pin = {field: conf[f"{key}_{field}"] for field in
           ("PACKAGE", "PACKAGE_VERSION", "SUITE", "FILE", "SHA256", "MB")}
    path = DOWNLOADS / pin["FILE"]
    if verified(path, pin["SHA256"]):
        return path
    instead = DOWNLOADS / f"{pin['FILE']}.instead"      # what came when the pin was gone
    if instead.exists():
        other = json.loads(instead.read_text())
        if verified(DOWNLOADS / other["file"], other["sha256"]):
            loudly(f"NOT THE PINNED {pin['FILE']} BUT {other['file']}: the archive had no other")
            return DOWNLOADS / other["file"]
    return download(key, pin, path, instead)


def download(key: str, pin: dict[str, str], path: Path, instead: Path) -> Path:
    """Download for fetch(); the path of what came."""
    binary = key == "KERNEL"
    ways = f"put {pin['FILE']} (SHA-256 {pin['SHA256']}) into {DOWNLOADS}" + binary * (
        ", or give KERNEL=/path/to/linux or LINUX_TARBALL=/path/to/linux.tar.xz")
    if not shutil.which("apt-get"):
        raise Die(f"there is no apt-get to download {pin['FILE']} with; {ways}")
    say(f"downloading {pin['FILE']} ({pin['MB']} MB and an index; "
        f"about {5 + int(pin['MB']) // 10} s)")
    apt = Apt(pin["SUITE"], "deb" if binary else "deb-src")
    apt.update(ways)
    tries = [(pin["PACKAGE"], pin["PACKAGE_VERSION"])] + [
        (package, None) for package in (candidates(apt, pin["PACKAGE"]) if binary
                                        else [pin["PACKAGE"]])]
    final = next(filter(None, (apt.download(*what, binary) for what in tries)), None)
    if not final:
        raise Die(f"{pin['SUITE']} has neither {pin['FILE']} nor a later one that can be "
                  f"downloaded (see build/logs/apt.log); {ways}")
    if final == path:
        verified(path, pin["SHA256"])
    else:
        loudly(f"{pin['FILE']} IS GONE FROM THE ARCHIVE; TAKING {final.name} INSTEAD")
        instead.write_text(json.dumps({"file": final.name, "sha256": sha256(final)}))
    return final


def loudly(text: str) -> None:
    """Say what must not be overlooked."""
    say(f"\n{'*' * 78}\nNOTE: {text}\n{'*' * 78}")


def neighbours() -> list[Path]:
    """Sources of the kernel versions beside the base's that its suite offers, as paths.

    The list is read from the archive at most once a day.
    """
    conf = base_conf()
    apt = Apt(conf["KERNEL_SUITE"], "deb")
    read = apt.dir / "neighbours.json"
    if read.exists() and time.time() - read.stat().st_mtime < 86400:
        paths = [DOWNLOADS / name for name in json.loads(read.read_text())]
        if all(path.exists() for path in paths):
            return paths
    apt.update()
    paths = [newest(apt, package) for package in sorted(apt.kernels())
             if package != conf["KERNEL_PACKAGE"]]
    read.write_text(json.dumps([path.name for path in paths]) + "\n")
    return paths


def newest(apt: Apt, package: str, otherwise: str = "") -> Path:
    """Path of a package's newest version in the cache, downloaded if need be.

    Die if that can't be had, with what else to do: otherwise.
    """
    told = apt.ask("show", "--no-all-versions", package)
    fields = dict(re.findall(r"^(Filename|Size): (.*)$", told, re.M))
    path = DOWNLOADS / Path(fields["Filename"]).name if "Filename" in fields else None
    if path and path.exists():
        return path
    say(f"downloading {package}" + (f" ({int(fields['Size']) / 1e6:.1f} MB)" if path else ""))
    path = apt.download(package)
    if not path:
        raise Die(f"{package} of {apt.suite} cannot be downloaded (see build/logs/apt.log); check "
                  "the network and run this again" + f", or {otherwise}" * bool(otherwise))
    for old in DOWNLOADS.glob(f"{package}_*.deb"):
        if old != path:
            old.unlink()
    return path


def unpacked(apt: Apt, names: Sequence[str], where: Path, otherwise: str = "") -> None:
    """Put what packages hold, in their newest versions, into a folder, which is then whole.

    Die as newest() does.
    """
    part = where.with_name(f"{where.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name in names:
        run(["dpkg-deb", "-x", newest(apt, name, otherwise), part], f"{where.name}-unpack")
    shutil.rmtree(where, ignore_errors=True)
    part.rename(where)


def candidates(apt: Apt, package: str) -> list[str]:
    """Kernel source packages to try when the pinned version is gone, the newest first.

    All with the pinned one's first number, from the pinned one on.
    """
    def version(name):
        return [int(part) for part in re.findall(r"\d+", name)]

    return sorted((name for name in apt.kernels()
                   if version(name)[0] == version(package)[0]
                   and version(name) >= version(package)), key=version, reverse=True)


def kernel(tree: str = "", tarball: str = "") -> Path:
    """Make sure that there is a kernel source: a download, or what is given; its path.

    tree, tarball: paths, empty if not given.
    """
    for key, given, sign in (("KERNEL", tree, "net/sched/sch_api.c"),
                             ("LINUX_TARBALL", tarball, "")):
        if given:
            path = Path(given).expanduser().resolve()
            if not (path / sign).is_file():
                kind = "a Linux source tree" if sign else "a tarball of a Linux source tree"
                raise Die(f"{key}={given} is not {kind}; give the path of one")
            if (path / ".config").exists():
                raise Die(f"{path} is configured in place; run 'make mrproper' there, or give a "
                          "tree that is not")
            return path
    return fetch("KERNEL")


# ---------------------------------------------------------------- builds

def unpack(archive: Path, where: Path, log: str, estimate: float,
           left_out: Sequence[str] = ()) -> Path:
    """Unpack archive, less its top folder, into <where>.part; returns that for a rename.

    left_out: patterns of files that are not needed, of an archive that is a package. Files
    get the time of unpacking, so that objects made from another base look old to make.
    """
    part = where.with_name(where.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    if archive.suffix == ".deb":                        # a source tarball in a package
        cmd = (f"dpkg-deb --fsys-tarfile {quote(str(archive))} | tar -xO --wildcards "
               f"'./usr/src/*.tar.xz' | tar -xJm --strip-components=1 -C {quote(str(part))} "
               + " ".join(f"--exclude={quote(pattern)}" for pattern in left_out))
    else:
        cmd = ["tar", "-xmf", archive, "--strip-components=1", "-C", part]
    run(cmd, log, f"unpacking {archive.name}", estimate,
        fix=f"if {archive} is damaged, delete it and fetch it again")
    return part


def iproute2() -> None:
    """Build tc and ip with the patches in patches/iproute2, in build/iproute2."""
    tree = IPROUTE2
    source = base_conf()["IPROUTE2_SHA256"]
    if tree.dir.exists() and tree.stamp.source != source:
        tree.require_saved()
        shutil.rmtree(tree.dir)
    if not tree.dir.exists():
        origin = fetch("IPROUTE2")
        part = unpack(origin, tree.dir, "iproute2-unpack", 1)
        tree.commit_base(part, origin.name.removesuffix(".orig.tar.xz"), ["."])
        part.rename(tree.dir)
        tree.stamp_file.unlink(missing_ok=True)
        tree.set_stamp(source=source, head=tree.git("rev-parse", "base"), other=None
                       if origin.name == base_conf()["IPROUTE2_FILE"] else origin.name)
    tree.apply()
    state = tree.git("rev-parse", "HEAD") + hashlib.sha256(
        tree.git("diff", "HEAD", raw=True)).hexdigest()
    if tree.stamp.built == state and (tree.dir / "tc/tc").exists():
        return
    if not (tree.dir / "config.mk").exists():
        run(["./configure"], "iproute2-configure", cwd=tree.dir)
    run(["make", f"-j{JOBS}", "SUBDIRS=lib ip tc netem"], "iproute2", "building tc and ip", 15,
        cwd=tree.dir)
    tree.set_stamp(built=state)


def iproute2_at(commit: str, where: Path, words: Sequence[str], what: str, estimate: float,
                env: dict[str, str] | None = None) -> None:
    """Build a commit of build/iproute2 in a folder of its own, unless that is done.

    words: of make. what, estimate (s): as for run(). env: for the compiler.
    """
    commit = IPROUTE2.git("rev-parse", commit)
    stamp = where / ".stamp"
    if made_of(stamp, commit):
        return
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    IPROUTE2.git("archive", "-o", where / "all.tar", commit)
    run(["tar", "-xmf", "all.tar"], where.name, cwd=where)
    run(["./configure"], where.name, cwd=where, env=env)
    run(["make", f"-j{JOBS}", *words], where.name, what, estimate, cwd=where, env=env)
    stamp.write_text(commit)


def sparse() -> None:
    """Build sparse in build/sparse."""
    where, digest = BUILD / "sparse", base_conf()["SPARSE_SHA256"]
    stamp = where / ".stamp"
    if made_of(stamp, digest):
        return
    shutil.rmtree(where, ignore_errors=True)
    unpack(fetch("SPARSE"), where, "sparse-unpack", 1).rename(where)
    run(["make", f"-j{JOBS}", "sparse"], "sparse", "building sparse", 10, cwd=where)
    stamp.write_text(digest)


def venv(name: str = "venv", requirements: str = "requirements.txt") -> None:
    """Make build/<name> with the Python packages of a file in lab/host/."""
    wanted = ROOT / "lab/host" / requirements
    where = BUILD / name
    stamp, state = where / ".stamp", f"{sys.version}\n{where}\n{sha256(wanted)}"
    if made_of(stamp, state):
        return
    run([sys.executable, "-m", "venv", "--clear", where], "venv", f"making build/{name}", 8)
    run([where / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-deps",
         "--require-hashes", "--only-binary", ":all:", "-r", wanted], "venv-pip",
        "installing Python packages", 5, env=dict(os.environ, PIP_CACHE_DIR=str(CACHE / "pip")))
    stamp.write_text(state)


def check() -> None:
    """What only the whole 'make check' needs: packages, Python packages, neighbours."""
    packages(PACKAGES["check"])
    venv("check-venv", "check-requirements.txt")
    neighbours()


def given() -> tuple[str, str]:
    """Arguments for kernel() from the environment."""
    return os.environ.get("KERNEL", ""), os.environ.get("LINUX_TARBALL", "")


USUAL = ("packages", "kernel", "iproute2", "sparse", "venv")


def main(*step: str) -> None:
    """Run the steps named on the command line, or the usual ones.

    step: packages, kernel, iproute2, sparse, venv (these by default), check, figures, qemu,
    reported.
    """
    steps = {"packages": None, "kernel": lambda: kernel(*given()), "iproute2": iproute2,
             "sparse": sparse, "venv": venv}
    steps |= {name: lambda wanted=wanted: packages(wanted) for name, wanted in PACKAGES.items()}
    steps["check"] = check
    words = known("step", step or USUAL, steps)
    check_host()
    BUILD.mkdir(exist_ok=True)
    for word in words:
        steps[word]()
