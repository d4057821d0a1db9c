# SPDX-License-Identifier: GPL-2.0
"""What make syz reads from the code of a kernel."""

from tests import syz_code

TRACER = 0x6020fd25
# f() does something and has two blocks, of which the second one calls another function; g() has
# none; h() calls by the register that f() has loaded.
ASSEMBLY = """
vmlinux:     file format elf64-x86-64

Disassembly of section .text:

0000000060100000 <f>:
    60100000:\tpush   %rbx
    60100001:\tmovabs $0x6020fd25,%rbx
    6010000b:\tcall   *%rbx
    6010000d:\ttest   %edi,%edi
    6010000f:\tje     60100019 <f+0x19>
    60100011:\tcall   *%rbx
    60100013:\tmovabs $0x60300000,%rax
    6010001d:\tcall   *%rax
    6010001f:\tret

0000000060100020 <g>:
    60100020:\tret

0000000060100030 <h.isra.0>:
    60100030:\tcall   *%rbx
    60100032:\tret
"""


def test_block_starts():
    """A block starts after a call of the tracer; what is before the first one belongs to that."""
    first, second, other = 0x6010000d, 0x60100013, 0x60100032
    assert syz_code.block_starts(ASSEMBLY, TRACER) == {
        0x60100000: first, 0x60100001: first, 0x6010000b: first, first: first,
        0x6010000f: first, 0x60100011: first,
        second: second, 0x6010001d: second, 0x6010001f: second,
        0x60100030: other, other: other}
    assert syz_code.block_starts(ASSEMBLY, TRACER + 1) == {}


def test_addresses():
    """Symbols that nm prints, but for those that there are two of."""
    assert syz_code.addresses("0000000000000010 t f\n0000000000000020 T g\n"
                              "                 U h\n0000000000000030 t f\n") == {"g": 0x20}


def test_ran():
    """A block has run if its bit is set."""
    assert [block for block in range(16) if syz_code.ran(b"\x01\x82", block)] == [0, 9, 15]


def test_function_at():
    """The function that a line is in is the last that begins above it."""
    source = ["static int f(int a)", "{", "\tg(a);", "}", "void *", "h(void)"]
    assert [syz_code.function_at(source, number) for number in (1, 3, 6)] == ["f", "f", "h"]
    assert syz_code.function_at(["\tg(a);"], 1) == "?"
