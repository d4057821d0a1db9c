# SPDX-License-Identifier: GPL-2.0
"""What of the series' code the programs of make syz have run: blocks, and lines of the source.

A block goes from one branch to the next. At the start of each, the compiler has put a call of
TRACER, and lab/series/kcov.h keeps a bit for every 2 bytes of the kernel's code, which that call
sets: lab_blocks. Here is what these bits mean.
"""

import collections
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from host.common import BUILD, ROOT, told
from series import kernel
from series.code import added

from tests.coverage import explanations

TRACER = "__sanitizer_cov_trace_pc"
REACH = 65536  # bytes that the last function of the series may have
EXPLAINED = ROOT / "lab/tests/syz/unreached.txt"
ONLY_WRONG = re.compile(r"ASSERT_RTNL|WARN_ON")  # blocks there run if something is wrong
LEAST = {f"net/sched/sch_{name}.c": percent for names, percent in (  # lines that have to run
    (("generic-shared", "rate_group", "rate_group_qdisc", "rate_tree"), 95),
    (("cake", "tbf", "htb"), 90)) for name in names}
# What objdump prints: the start of a function, and an instruction
LABEL = re.compile(r"\w+ <.*>:")
INSTRUCTION = re.compile(r" *(\w+):\t(.*)")
# Instructions: UML calls by a register, which a function loads once
LOAD = re.compile(r"movabs \$(0x\w+),(%\w+)")
CALL = re.compile(r"call +\*(%\w+)")


class Code(NamedTuple):
    """The series' code in a kernel.

    blocks: {number of a block in lab_blocks: (file, line) that it begins with}. lines: {(file,
    line): blocks that have code of it}.
    """

    blocks: dict[int, tuple[str, int]]
    lines: dict[tuple[str, int], set[int]]


# ------------------------------------------------------- the code of a kernel

def addresses(symbols: str) -> dict[str, int]:
    """{symbol: its address} of what nm prints; without those that are there twice."""
    rows = [(name, int(at, 16)) for at, name in re.findall(r"^(\w+) \w (\S+)$", symbols, re.M)]
    count = collections.Counter(name for name, _ in rows)
    return {name: at for name, at in rows if count[name] == 1}


def disassembled(out: Path, symbols: dict[str, int]) -> str:
    """What objdump prints from the first function of the series to the last, and some more.

    out: the folder of a kernel. symbols: as of addresses().
    """
    names = [name for file in kernel.OURS for name in
             re.findall(r" [tT] (\w+)$",
                        told("nm", out / f"net/sched/{file}.o", check=True).stdout, re.M)]
    ours = [symbols[name] for name in names if name in symbols
            and symbols["_stext"] <= symbols[name] < symbols["_etext"]]
    return told("objdump", "-d", "--no-show-raw-insn", f"--start-address={min(ours)}",
                f"--stop-address={max(ours) + REACH}", out / "vmlinux", check=True).stdout


def block_starts(assembly: str, tracer: int) -> dict[int, int]:
    """{address of an instruction: where its block starts} of what objdump prints.

    tracer: the address of TRACER. A block starts after a call of it, which is what TRACER sees.
    What a function does before its first block belongs to that.
    """
    starts, early, start, traced, registers = {}, [], None, False, {}
    for line in assembly.splitlines():
        if LABEL.fullmatch(line):
            early, start, traced = [], None, False
        elif found := INSTRUCTION.fullmatch(line):
            at, instruction = int(found[1], 16), found[2]
            if traced:
                start = at
                starts.update(dict.fromkeys(early, start))
                early = []
            if start is None:
                early.append(at)
            else:
                starts[at] = start
            if load := LOAD.fullmatch(instruction):
                registers[load[2]] = int(load[1], 16)
            call = CALL.fullmatch(instruction)
            traced = bool(call) and registers.get(call[1]) == tracer
    return starts


def source_lines(vmlinux: Path, instructions: Iterable[int]) -> list[tuple[str, int] | None]:
    """(file, line) of the source of each address; None: not of net/sched."""
    text = told("addr2line", "-e", vmlinux, check=True,
                input="".join(f"{at:x}\n" for at in instructions)).stdout
    found = [re.search(r"(net/sched/[\w-]+\.c):(\d+)", line) for line in text.splitlines()]
    return [(match[1], int(match[2])) if match else None for match in found]


def code_of(which: str) -> Code:
    """Read it from a kernel's symbols and its code."""
    out = BUILD / kernel.KERNELS[which].out
    vmlinux = out / "vmlinux"
    symbols = addresses(told("nm", vmlinux, check=True).stdout)
    starts = block_starts(disassembled(out, symbols), symbols[TRACER])
    code = Code({}, collections.defaultdict(set))
    for start, place in zip(starts.values(), source_lines(vmlinux, starts), strict=True):
        if place:
            block = (start - symbols["_stext"]) // 2
            code.lines[place].add(block)
            code.blocks.setdefault(block, place)
    return code


# --------------------------------------------------------------- what has run

def ran(bits: bytes, block: int) -> bool:
    """Whether a block has run, by what lab_blocks says."""
    return bool(bits[block // 8] >> block % 8 & 1)


class Reached(NamedTuple):
    """Of a file: lines that the series add, how many ran, the same of blocks; rows of the
    lines that did not: number, function, text."""

    lines: int
    lines_run: int
    blocks: int
    blocks_run: int
    missed: list[tuple[int, str, str]]


def function_at(source: Sequence[str], number: int) -> str:
    """The function that a line, from 1, is in."""
    for line in reversed(source[:number]):
        if match := re.match(r"(?:[a-z][\w *]*?[ *])?(\w+)\(", line):
            return match[1]
    return "?"


def reached(which: str, bits: bytes) -> dict[str, Reached]:
    """What of each file of the series ran. bits: what the guest's lab_blocks says."""
    code, table = code_of(which), {}
    for file, numbers in sorted(added().items()):
        source = (BUILD / "linux" / file).read_text().splitlines()
        ours = {number for number in numbers if not ONLY_WRONG.search(source[number - 1])}
        lines = {number: any(ran(bits, block) for block in having)
                 for (name, number), having in code.lines.items()
                 if name == file and number in ours}
        blocks = [ran(bits, block) for block, (name, number) in code.blocks.items()
                  if name == file and number in ours]
        if lines:
            table[file] = Reached(
                len(lines), sum(lines.values()), len(blocks), sum(blocks),
                [(number, function_at(source, number), source[number - 1].strip())
                 for number in sorted(lines) if not lines[number]])
    return table


def show(which: str, bits: bytes, missed: Path) -> list[str]:
    """Print what ran, write which lines did not; sentences about what is short.

    missed: the file for these lines. Those that EXPLAINED has come last, with the reason.
    """
    reasons, told, short = explanations(EXPLAINED), {True: [], False: []}, []
    print(f"{'':<36}{'lines':>7}{'run':>7}{'%':>8}{'explained':>11}{'blocks':>8}{'run':>7}{'%':>8}")
    for file, of in reached(which, bits).items():
        why = [reasons.get((file, function, text)) for _, function, text in of.missed]
        for (number, function, text), reason in zip(of.missed, why, strict=True):
            told[bool(reason)].append(
                f"{file}:{number}: {function}: {text}" + (f" ({reason})" if reason else "") + "\n")
        share = 100 * of.lines_run / of.lines
        print(f"{file:<36}{of.lines:>7}{of.lines_run:>7}{share:>8.1f}{sum(map(bool, why)):>11}"
              f"{of.blocks:>8}{of.blocks_run:>7}{100 * of.blocks_run / of.blocks:>8.1f}")
        if share < LEAST.get(file, 0):
            short.append(f"{file}: {share:.1f} % of the lines ran, not {LEAST[file]}")
    missed.write_text("".join(told[False] + told[True]))
    return short
