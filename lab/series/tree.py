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

import shutil
import tempfile
from pathlib import Path

from host import setup
from host.common import BUILD, Die, base_conf, known, run, say
from host.repo import KERNEL, am_patch

from series import am, export
from series.base import LINUX_BASE, make_linux, make_linux_base, version, wanted_source
from series.copies import base_files, store_base_files, stored_base_files, write_links


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


def main(what: str, sob: str = "", tree: str = "", series: str = "") -> None:
    """Do what the command line says.

    what: apply, export, check-copies or am. sob: NAME <MAIL>, to also export to
    build/export-signed, signed by this person. tree: the Linux source tree for am. series:
    folder or number of the last one for am (all).
    """
    BUILD.mkdir(exist_ok=True)
    commands = {"apply": apply, "export": lambda: export.export(sob),
                "check-copies": export.check_copies, "am": lambda: am.am(tree, series)}
    command, = known("command", [what], commands)
    commands[command]()
