# SPDX-License-Identifier: GPL-2.0
"""A room of the lab: the C files in user space."""
