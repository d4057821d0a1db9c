# SPDX-License-Identifier: GPL-2.0
"""A room of the lab: what sends and meters in a guest."""
