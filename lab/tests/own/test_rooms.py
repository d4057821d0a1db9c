# SPDX-License-Identifier: GPL-2.0
"""How lab/ is made: who imports whom, how long things are, what files begin with."""

import ast
import graphlib
import re

from host import common, repo

# Each room may import from those before it
ROOMS = ("host", "series", "guest", "sim", "traffic", "loads", "tests", "report")
LINES = 600  # of a module, at most
FUNCTION = 45  # lines of a function


def uses():
    """{room.module: modules of rooms that it imports, or names to a guest}."""
    found = {}
    for path in (common.ROOT / "lab").glob("*/*.py"):
        name = f"{path.parent.name}.{path.stem}"
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found[name] |= ({f"{node.module}.{alias.name}" for alias in node.names}
                                if node.module in ROOMS else {node.module})
            elif isinstance(node, ast.Constant) and re.fullmatch(
                    rf"({'|'.join(ROOMS)})\.[a-z_]+(:\w+)?", str(node.value)):
                found[name].add(node.value.partition(":")[0])
    return {name: {use for use in used if use in found} for name, used in found.items()}


def test_downward():
    """A room imports from itself and those below it."""
    found = uses()
    assert {name.partition(".")[0] for name in found} == set(ROOMS)
    for name, used in found.items():
        room = name.partition(".")[0]
        for use in used:
            assert ROOMS.index(use.partition(".")[0]) <= ROOMS.index(room), f"{name}: {use}"


def test_lengths():
    """Modules and functions are short enough to be read at once."""
    for path in (common.ROOT / "lab").rglob("*.py"):
        text = path.read_text()
        assert text.count("\n") <= LINES, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno + 1 <= FUNCTION, f"{path.name}: {node.name}"


def test_cycles():
    """No module needs itself."""
    order = graphlib.TopologicalSorter({name: used - {name} for name, used in uses().items()})
    assert len(list(order.static_order())) > 30


def test_hints():
    """Public functions say what they take and give."""
    for path in (common.ROOT / "lab").glob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef | ast.Module):
                continue
            for one in node.body:
                if isinstance(one, ast.FunctionDef) and not one.name.startswith(("_", "test_")):
                    args = one.args.args + one.args.kwonlyargs
                    assert one.returns and all(
                        arg.annotation for arg in args if arg.arg != "self"), (
                            f"{path.name}: {one.name}")


def test_licence():
    """Every file of lab/ that can have a comment begins with its licence."""
    for path in repo.git(common.ROOT, "ls-files", "lab").split():
        if not path.endswith((".json", ".md")):
            head = (common.ROOT / path).read_text().splitlines()[:2]
            assert "SPDX-License-Identifier: " in " ".join(head), path
