# SPDX-License-Identifier: GPL-2.0
"""Second room: boots a kernel, runs a command in it, judges its log. Imports tree."""
