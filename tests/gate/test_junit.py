"""JUnit XML as CI systems read it: the structure that both Ant's schema and Jenkins' allow."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from known_gate import CALM, key, speedups

from specbench.gate.judge import judge
from specbench.gate.junit import render_junit
from specbench.gate.result import Finding, GateResult
from specbench.gate.rules import Rules

OUTCOMES = ("failed", "regression", "inconclusive", "no evidence", "not worse", "equivalent", "improvement")
HOSTILE = 'a "quote", <b>, ]]> & \x1b[31mred\x00'

# What JUnit.xsd of Ant (the stricter one) requires and junit-10.xsd of Jenkins knows: attributes, children in order.
REQUIRED = {
    "testsuites": set(),
    "testsuite": {
        *("id", "package", "name", "timestamp", "hostname", "tests", "failures", "errors", "skipped", "time"),
    },
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message"},
    "properties": set(),
    "system-out": set(),
    "system-err": set(),
}
CHILDREN = {
    "testsuites": r"(testsuite )*",
    "testsuite": r"properties (testcase )*system-out system-err ",
    "properties": r"(property )*",
    "testcase": r"(failure |error |skipped )?",
}


def result(*outcomes: str, text: str = "it is so.") -> GateResult:
    findings = tuple(Finding(key(i + 1), "speedup", o, text) for i, o in enumerate(outcomes))  # type: ignore[arg-type]
    return GateResult("a", "b", False, 0.03, 0.95, False, findings, ("c (only in a)",), ("engine: 1 → 2",), ("mind.",))


def assert_valid(root: ET.Element) -> None:
    for element in root.iter():
        assert set(element.attrib) == REQUIRED[element.tag], element.tag
        children = "".join(f"{child.tag} " for child in element)
        assert re.fullmatch(CHILDREN.get(element.tag, ""), children), (element.tag, children)
    for suite in root.iter("testsuite"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
        for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[attribute]) == len(list(suite.iter(kind)))
        assert int(suite.attrib["tests"]) == len(list(suite.iter("testcase")))
    assert all(re.fullmatch(r"\d+(\.\d+)?", element.attrib.get("time", "0")) for element in root.iter())


@pytest.mark.parametrize("outcomes", [OUTCOMES, ("equivalent",), ("regression",) * 3])
def test_it_has_the_structure_of_the_schema_and_counts_that_add_up(outcomes: tuple[str, ...]) -> None:
    assert_valid(ET.fromstring(render_junit(result(*outcomes))))


@pytest.mark.parametrize(
    ("outcome", "tag"),
    [
        ("failed", "error"),
        ("regression", "failure"),
        ("inconclusive", "skipped"),
        ("no evidence", "skipped"),
        ("not worse", None),
        ("equivalent", None),
        ("improvement", None),
    ],
)
def test_each_outcome_is_what_ci_makes_of_it_with_the_sentence(outcome: str, tag: str | None) -> None:
    (case,) = ET.fromstring(render_junit(result(outcome))).iter("testcase")
    assert case.attrib["classname"] == "specbench.gate.chat"
    assert case.attrib["name"] == "speedup: chat, ngram γ4, batch size 1"
    assert [child.tag for child in case] == ([tag] if tag else [])
    assert all(child.attrib["message"] == "it is so." for child in case)


def test_text_from_outside_stays_text() -> None:
    root = ET.fromstring(render_junit(result("regression", text=HOSTILE)))
    assert_valid(root)
    (failure,) = root.iter("failure")
    assert failure.attrib["message"].startswith('a "quote", <b>, ]]> & ')
    assert "\x00" not in failure.attrib["message"]


def test_what_differs_and_what_is_not_seen_is_in_it() -> None:
    root = ET.fromstring(render_junit(result("equivalent")))
    properties = [(p.attrib["name"], p.attrib["value"]) for p in root.iter("property")]
    assert ("changed", "engine: 1 → 2") in properties
    assert ("verdict", "PASS") in properties
    assert "c (only in a)" in (root.findtext("testsuite/system-out") or "")


def test_a_real_gate_gives_a_case_for_each_comparison() -> None:
    gated = judge(speedups(CALM, CALM), speedups(CALM, [x - 0.2 for x in CALM], run="b"), Rules())
    root = ET.fromstring(render_junit(gated))
    assert_valid(root)
    assert [len(case) for case in root.iter("testcase")] == [0, 1]
