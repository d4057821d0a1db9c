# SPDX-License-Identifier: GPL-2.0
"""The lowest room: paths and commands, the base, the series, the kernels. Imports no other."""
