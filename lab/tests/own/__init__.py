# SPDX-License-Identifier: GPL-2.0
"""Tests of the lab itself, by subject; pytest runs them."""

from collections.abc import Callable
from typing import Any
from unittest import TestCase

from host.common import Die


def sentence(case: TestCase, call: Callable, *args: Any, **kwargs: Any) -> str:
    """Call something that must Die; return what it says."""
    with case.assertRaises(Die) as caught:
        call(*args, **kwargs)
    return str(caught.exception)
