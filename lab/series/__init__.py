# SPDX-License-Identifier: GPL-2.0
"""A room of the lab: the series, their trees and kernels."""
