# SPDX-License-Identifier: GPL-2.0
"""Third room: what loads and meters qdiscs in a guest. Imports guest and tree."""
