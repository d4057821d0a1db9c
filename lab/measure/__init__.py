# SPDX-License-Identifier: GPL-2.0
"""Upper room: what gives figures. Imports load, guest and tree, and not gates."""
