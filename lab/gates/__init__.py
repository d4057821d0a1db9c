# SPDX-License-Identifier: GPL-2.0
"""Upper room: what passes or fails. Imports load, guest and tree, and not measure."""
