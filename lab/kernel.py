"""Configure and build the UML kernels: patched from build/linux into build/um,
base from build/linux-base into build/um-base."""

import hashlib
import sys

from common import BUILD, JOBS, ROOT, Die, guard, kernel_env, make_args, run

TREES = {"patched": ("linux", "um"), "base": ("linux-base", "um-base")}
CONFIG = ROOT / "lab" / "uml.config"


def configure(source, out, fragments=(CONFIG,), name="config"):
    """Write out/.config from UML's defconfig and fragments, if they changed.

    Die if an option of a fragment did not take.
    """
    stamp = out / ".fragments"
    text = b"".join(f.read_bytes() for f in fragments)
    kconfig = (source / "net/sched/Kconfig").read_bytes()
    want = hashlib.sha256(text + kconfig).hexdigest()
    if (out / ".config").exists() and stamp.exists() and stamp.read_text() == want:
        return
    out.mkdir(parents=True, exist_ok=True)
    make = ["make", "-s", "ARCH=um", f"O={out}", *make_args()]
    run([*make, "defconfig"], name, cwd=source, env=kernel_env())
    config = out / ".config"
    lines = config.read_text().splitlines()
    config.write_text("".join(
        line + "\n" for line in lines
        if not line.startswith(("CONFIG_NET_VENDOR", "CONFIG_ETHERNET"))
    ) + "# CONFIG_ETHERNET is not set\n")
    run([source / "scripts/kconfig/merge_config.sh", "-m", "-O", out, config,
         *fragments], name, cwd=source, env=kernel_env())
    run([*make, "olddefconfig"], name, cwd=source, env=kernel_env())
    got = set(config.read_text().splitlines())
    for line in text.decode().splitlines():
        off = line.startswith("# CONFIG_") and line.endswith(" is not set")
        missing = off and f"{line.split()[1]}=y" in got
        if missing or (line.startswith("CONFIG_") and line not in got):
            symbol = line.removeprefix("CONFIG_").partition("=")[0].encode()
            if symbol.startswith(b"NET_SCH_SHARED_") and symbol not in kconfig:
                continue  # of a patch that this tree does not have
            raise Die(f"the kernel configuration lost '{line}'; look at its "
                      f"dependencies in {source}")
    stamp.write_text(want)


def build(which):
    """Build one kernel; return the path of the executable."""
    tree, out = TREES[which]
    source, out = BUILD / tree, BUILD / out
    configure(source, out, name=f"config-{which}")
    run(["make", "-s", "ARCH=um", f"O={out}", *make_args(JOBS + 1)],
        f"kernel-{which}", cwd=source, env=kernel_env(),
        what=f"building the {which} kernel",
        estimate=20 if (out / "linux").exists() else 330)
    return out / "linux"


def main():
    """Build what the arguments name."""
    for which in sys.argv[1:] or ["patched"]:
        if which not in TREES:
            raise Die(f"there is no kernel called '{which}'; use patched or base")
        build(which)


if __name__ == "__main__":
    guard(main)
