# SPDX-License-Identifier: GPL-2.0
"""What is measured, put into the pages that show it."""
