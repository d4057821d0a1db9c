# SPDX-License-Identifier: GPL-2.0
"""A room of the lab: paths, commands, git, what is installed and recorded."""
