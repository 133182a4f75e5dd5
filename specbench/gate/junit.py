"""A gate's findings as JUnit XML: one test case for each metric of each cell."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import datetime, timezone

from specbench.gate.result import FAILING, UNDECIDED, Finding, GateResult

# XML 1.0, section 2.2: other control characters cannot be written at all, not even escaped.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(result: GateResult) -> str:
    """A failed case for a regression, an error for what could not be measured, a skipped one for what is undecided.

    With all that Ant's schema wants, and nothing that Jenkins' (junit-10.xsd) does not know.
    """
    kinds = [_kind(finding) for finding in result.findings]
    counted = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    root = ET.Element("testsuites")  # without attributes, of which Ant's schema knows none
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            **{"id": "0", "package": "specbench", "name": "specbench.gate", "hostname": "localhost", "time": "0"},
            **{"timestamp": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S"), "tests": str(len(kinds))},
            **{name: str(kinds.count(kind)) for name, kind in counted.items()},
        },
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(result):
        ET.SubElement(properties, "property", name=name, value=_text(value))
    for finding in result.findings:
        _add_case(suite, finding)
    ET.SubElement(suite, "system-out").text = _text("\n".join((*result.not_compared, *result.caveats)))
    ET.SubElement(suite, "system-err")
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_case(suite: ET.Element, finding: Finding) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_text(f"specbench.gate.{finding.cell.workload}"),
        name=_text(f"{finding.about}: {finding.cell}"),
        time="0",
    )
    kind = _kind(finding)
    if kind is None:
        return
    note = ET.SubElement(case, kind, message=_text(finding.text))
    if kind != "skipped":
        note.set("type", finding.outcome)
        note.text = _text(finding.text)


def _kind(finding: Finding) -> str | None:
    if finding.outcome in FAILING:
        return "error" if finding.outcome == "failed" else "failure"
    return "skipped" if finding.outcome in UNDECIDED else None


def _properties(result: GateResult) -> Sequence[tuple[str, str]]:
    pairs = [("verdict", result.verdict), ("baseline", result.baseline or ""), ("candidate", result.candidate)]
    pairs += [("max-regression", f"{result.margin:g}"), ("level", f"{result.level:g}")]
    pairs += [("simulated", str(result.simulated).lower())]
    return pairs + [("changed", change) for change in result.changes]


def _text(value: str) -> str:
    return _NOT_XML.sub("�", value)
