# SPDX-License-Identifier: GPL-2.0
"""make shell: an interactive shell inside the patched kernel."""


from host.common import BUILD, ROOT

from guest.boot import interact


def main() -> None:
    """Boot with the terminal as console."""
    interact(BUILD / "um/linux", "shell", f". {ROOT}/lab/guest/shell.sh")
