# SPDX-License-Identifier: GPL-2.0
"""A room of the lab: boots a kernel, runs a command in it, judges its log."""
