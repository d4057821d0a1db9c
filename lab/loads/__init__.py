# SPDX-License-Identifier: GPL-2.0
"""A room of the lab: what is sent, and what has to come of it."""
