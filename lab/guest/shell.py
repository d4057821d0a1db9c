# SPDX-License-Identifier: GPL-2.0
"""make shell: an interactive shell inside the patched kernel."""

from collections.abc import Sequence

from tree.common import BUILD, ROOT
from tree.results import command_line

from guest.boot import interact


def main(argv: Sequence[str]) -> None:
    """Boot with the terminal as console."""
    command_line("shell", __doc__).parse_args(argv)
    interact(BUILD / "um/linux", "shell", f". {ROOT}/lab/guest/shell.sh")
