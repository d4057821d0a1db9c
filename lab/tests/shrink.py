# SPDX-License-Identifier: GPL-2.0
"""A failure made shorter."""

from collections.abc import Callable


def shrunk(items: list, least: int, tries: int,
           fails: Callable[[list], list | None]) -> list:
    """The shortest list that so many tries find, and that fails, by leaving parts out.

    least: how many items to keep. fails(items): what of them still fails, or None.
    """
    size = max(1, len(items) // 2)
    while tries and len(items) > least:
        start = 0
        while start < len(items) and tries:
            tries -= 1
            less = fails(items[:start] + items[start + size:])
            if less is None:
                start += size
            else:
                items = less
        if size == 1:
            break
        size = max(1, min(size // 2, len(items) // 2))
    return items
