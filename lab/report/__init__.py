# SPDX-License-Identifier: GPL-2.0
"""A room of the lab: what gives figures, and the pages that show them."""
