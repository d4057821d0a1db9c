# SPDX-License-Identifier: GPL-2.0
"""What all tests of the lab use."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that is gone after the test: pytest itself would leave its last three runs'."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
