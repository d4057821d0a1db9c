# SPDX-License-Identifier: GPL-2.0
"""lab report: results/*.json are put into the marked places of the pages, and nowhere else.

A page has a block between '<!-- made: NAME -->' and '<!-- end -->', or a figure in a sentence
between '<!--=NAME-->' and '<!--/-->'. What each is made of is listed here: tables and figures, no
sentences. Every command that records results does this at its end.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from host.common import ROOT, Die
from host.results import RESULTS, recorded
from tests import arches_tc, check, coverage, drivers, gauntlet, tdc

from report import bench, cost, demo, evaluation, issues, smp, trees, users
from report.evaluation import markdown

BLOCK = re.compile(r"(?ms)^(<!-- made: ([\w -]+) -->\n)(.*?)^(<!-- end -->)$")
FIGURE = re.compile(r"(<!--=([\w.-]+)-->).*?(<!--/-->)", re.S)
# On the front page: cases of cost.json, with cake at the root and with cake_mq
COST_FRONT = {"instructions for a packet of 200 bytes, at 60 % of the rate":
              ("root-cake-60-percent", "60-percent")}


def marked() -> list[Path]:
    """The pages that may have marks."""
    return [ROOT / "README.md", *sorted(RESULTS.glob("*.md")), ROOT / "module/README.md"]


def fenced(lines: Sequence[str]) -> list[str]:
    """Lines that are to stay as they are."""
    return ["```", *lines, "```"]


# ------------------------------------------------------------------- blocks

def hunted() -> list[str]:
    """What make gauntlet has found."""
    return fenced(gauntlet.overview(recorded("gauntlet.json")["rows"],
                                    recorded("gauntlet-base.json").get("races", ())))


def once_recorded(name: str, lines: Callable[[dict], list[str]]) -> list[str]:
    """What a file of results/ that may not be there yet gives; nothing before it is recorded."""
    found = recorded(name)
    return fenced(lines(found)) if found else []


def counted(kinds: str, head: Sequence[str]) -> list[str]:
    """Instructions per packet of the cases that are beside the same on the base, or are not."""
    rows = {row["case"]: row for row in recorded("cost.json")["rows"]}
    return markdown(head, ((case.title, f"{rows[name]['base']:.0f}", f"{rows[name]['patched']:.0f}",
                            f"{rows[name]['ratio']:.4f}") for name, case in cost.CASES.items()
                           if bool(case.beside) == (kinds == "beside") and name in rows))


def two_cpus() -> list[str]:
    """What make bench has of two real CPUs."""
    found = recorded("smp.json")
    return fenced([*smp.BOUND_TABLE.lines(found["bounds"]), "",
                   *smp.SPEED_TABLE.lines(found["speeds"])])


def sent() -> list[str]:
    """What one CPU and two send of a rate, %."""
    speeds = {(row["case"], row["label"]): row for row in recorded("smp.json")["speeds"]}
    labels = ("root htb", "shared htb", "series", "stock cake_mq", "root cake")
    return markdown(("one CPU / two CPUs", *labels), (
        (case, *(" / ".join(f"{smp.of_rate(speeds[case, label], cpus):.0f}" for cpus in (1, 2))
                 for label in labels)) for case in smp.SPEEDS if case.endswith("bit")))


def gates() -> list[str]:
    """How long each gate of make test took, s."""
    took = recorded("times.json")["test"]
    return markdown(("gate", "fresh clone, s", "built, s"), (
        (name, *(f"{took[kind]['gates_s'][name]:.0f}" for kind in ("cold", "warm")))
        for name in took["cold"]["gates_s"]))


def versions() -> list[str]:
    """Which version of the series each file is of."""
    by_version = {}
    for name, version in recorded("versions.json")["files"].items():
        by_version.setdefault(version, []).append(name)
    return markdown(("version", "results"), (
        (str(version), ", ".join(sorted(by_version[version])))
        for version in sorted(by_version, reverse=True)))


def version_of(name: str) -> str:
    """Which version of the series a file is of; name: without .json."""
    return str(recorded("versions.json")["files"][f"{name}.json"])


def speeds_of(case: str) -> dict[str, dict]:
    """{sender: its row} of a case of smp.json."""
    return {row["label"]: row for row in recorded("smp.json")["speeds"] if row["case"] == case}


def front() -> list[str]:
    """What gets worse, on the front page, and of which version that is. What cake at the root
    gives is in the scenario "root NAME", if there is one."""
    base, patched = (demo.stored()[which] for which in ("base", "patched"))
    rows = [(cell.front, "scenarios",
             [cell.value(base, "root "), cell.value(base), cell.value(patched)])
            for row in demo.ROWS for cell in row.cells if cell.front]
    cost = {row["case"]: row for row in recorded("cost.json")["rows"]}
    for text, (root, case) in COST_FRONT.items():
        rows.append((text, "cost", [cost[root]["base"], cost[case]["base"], cost[case]["patched"]]))
    return markdown(("load", "root `cake`", "`cake_mq`", "`cake_mq`, patched",
                     "[version](results/README.md)"), (
        (text, *("not measured" if value is None else f"{value:.0f}" for value in values),
         version_of(source)) for text, source, values in rows))


COST_HEAD = ("load", "Linux 7.3.4", "with the series", "ratio")
BLOCKS: dict[str, Callable[[], list[str]]] = {
    "demo": lambda: fenced(demo.table(demo.stored())),
    "coverage": lambda: fenced(coverage.table(recorded("coverage.json")["files"],
                                              coverage.explanations())),
    "check": lambda: once_recorded("check.json", check.table_lines),
    "gauntlet": hunted,
    "cost": lambda: counted("", COST_HEAD),
    "cost htb": lambda: counted("beside", ("load", "root", "shared", "ratio")),
    "bench": lambda: fenced(bench.TABLE.lines(recorded("bench.json")["rows"])),
    "users": lambda: fenced(users.TABLE.lines(recorded("users.json")["rows"])),
    "trees": lambda: fenced(trees.table(recorded("trees.json")["simulated"])),
    "trees kernel": lambda: fenced(trees.kernel_table(recorded("trees.json")["kernel"])),
    "smp": two_cpus, "sent": sent, "versions": versions, "front": front, "gates": gates,
    **{name: lambda name=name: issues.table(name, recorded(f"{name}.json")["columns"])
       for name in issues.COLUMNS},
    "drivers": lambda: once_recorded("drivers.json", lambda found: drivers.table(found["rows"])),
    "arches": lambda: once_recorded("arches.json", lambda found: arches_tc.table(found["rows"])),
    **{name: getattr(evaluation, name) for name in (
        "summary", "accuracy", "switching", "imbalance", "latency", "fairness", "committed")},
    "cpu time": evaluation.cost, "senders": evaluation.senders,
}


# ------------------------------------------------------------------ figures

def figures() -> dict[str, str]:
    """{name: what stands in a sentence}."""
    suites, old = recorded("tdc.json")["suites"], recorded("tdc-base.json")["suites"]
    whose, torture = tdc.owners(suites, old), recorded("torture.json")
    times = recorded("times.json")
    caught = [one["caught_by"] for one in recorded("mutants.json")["mutants"]]
    return {
        "kunit": f"{recorded('kunit.json')['passed']}",
        "mutants": f"{len(caught)}",
        "mutants.load": f"{sum('load' in how for how in caught)}",
        "mutants.kunit": f"{sum('load' not in how for how in caught)}",
        "tdc.base": f"{sum(map(len, old.values()))}",
        "tdc.new": f"{whose['the series'] + whose['the lab']}",
        "tdc.series": f"{whose['the series']}", "tdc.lab": f"{whose['the lab']}",
        "compat": f"{len(recorded('compat-base.json')['commands'])}",
        "torture": f"{torture['operations']:,}",
        "torture.minutes": f"{torture['seconds'] / 60:.0f}",
        "gain": gained("series", "root cake"),
        "gain.old": gained("stock cake_mq", "root cake"),
        **{f"longest.{flows}": evaluation.longest_waits(flows) for flows in (64, 1024)},
        "new": new_flows(),
        **{f"minutes.{target}":
           f"{minutes(took, 'cold')} minutes cold, {minutes(took, 'warm')} warm"
           for target, took in times.items()},
        "version.picture": version_of("scenarios"),
        **{f"version.{name}": version_of(name)
           for name in ("bench", "reported", "reports", "drivers", "trees", "users")},
    }


def gained(label: str, beside: str) -> str:
    """How many times as much two CPUs pass as one does: packets of 64 bytes, below the rate."""
    speeds = speeds_of("64 bytes, below the rate")
    return f"{speeds[label]['pps_2'] / speeds[beside]['pps_1']:.1f}"


def new_flows() -> str:
    """How long 99 % of 20,000 new flows a second wait below one cake, patched and not."""
    before, after = (demo.stored()[which]["root flood 20"]["small_p99"]
                     for which in ("base", "patched"))
    return f"{after * 1e6:.0f} us, unpatched {before * 1e3:.0f} ms"


def minutes(took: dict, kind: str) -> int:
    """How long a target of times.json took, at least one."""
    return max(1, round(took[kind]["total_s"] / 60))


def filled(text: str, name: str) -> str:
    """A page with its marked places filled; name: of the page, for what goes wrong."""
    values = figures()

    def known(kind, where):
        if where not in kind:
            raise Die(f"{name} has a mark '{where}', which lab/report/pages.py does not know")
        return kind[where]

    def block(found):
        return found[1] + "".join(f"{line}\n" for line in known(BLOCKS, found[2])()) + found[4]

    return FIGURE.sub(lambda found: found[1] + known(values, found[2]) + found[3],
                      BLOCK.sub(block, text))


def stale() -> list[str]:
    """Names of the pages that do not say what results/ says."""
    return [str(page.relative_to(ROOT)) for page in marked()
            if filled(page.read_text(), page.name) != page.read_text()]


def fill() -> None:
    """Bring all pages up to date."""
    for page in marked():
        text = page.read_text()
        new = filled(text, page.name)
        if new != text:
            page.write_text(new)


def main() -> None:
    """Fill in."""
    fill()
