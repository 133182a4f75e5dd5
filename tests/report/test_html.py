"""The page as a file: whole, safe to open, the verdict first, and in it what the run has."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_pages import EAGLE, HOSTILE, MONEY, Page, kept, page_of
from known_run import NGRAM, measurement, output_of, request, store

from specbench.analysis.marks import Mark
from specbench.analysis.summary import RunSummary, summarize
from specbench.report.html import _script_json, render_html
from specbench.report.page.data import page_data
from specbench.report.page.divergences import divergent_texts
from specbench.report.page.key_figures import key_figures
from specbench.report.page.marks import marked
from specbench.report.page.telemetry import READINGS, telemetry
from specbench.report.style import PAGE_COLOURS
from specbench.store.run import RunStore
from specbench.telemetry.sample import Sample


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    return kept(tmp_path_factory.mktemp("rich"), "rich")


@pytest.fixture(scope="module")
def summary(run: RunStore) -> RunSummary:
    return summarize(run)


@pytest.fixture(scope="module")
def html(run: RunStore) -> str:
    return page_of(run)


@pytest.fixture(scope="module")
def data(run: RunStore, summary: RunSummary) -> dict[str, Any]:
    return page_data(summary, run.measurements())


def test_the_page_is_whole_small_and_refers_to_nothing_outside(html: str) -> None:
    page = Page(html)
    assert page.open == []
    fetched = {"link", "iframe", "img", "object", "embed", "video", "audio", "base"}
    assert not fetched & {tag for tag, _ in page.tags}
    links = [v for _, attrs in page.tags for name, v in attrs.items() if name in ("href", "src", "action", "srcset")]
    assert all((link or "").startswith("#") for link in links)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {(link or "")[1:] for link in links} <= set(ids)
    assert "url(" not in html.split("</style>")[0]
    assert len(html.encode()) < 3 * 2**20


def test_a_page_of_200_cells_is_below_three_megabytes(run: RunStore, summary: RunSummary) -> None:
    arms = [c for c in summary.cells if c.is_speculative]
    cells = [replace(arms[i % len(arms)], gamma=i % 8 + 1, batch_size=2 ** (i // 8)) for i in range(200)]
    html = render_html(replace(summary, cells=(*summary.cells, *cells)), run.measurements())
    assert len(html.encode()) < 3 * 2**20
    assert "Cells of chat: 209 rows" in Page(html).words


def test_the_verdict_comes_first_then_all_that_a_reader_may_ask(html: str, summary: RunSummary) -> None:
    words = Page(html).words
    parts = (
        summary.headline, summary.text, "Speedup by batch size and gamma", "Throughput against speed for each user",
        "Every cell", "By position in the draft", "By category of the prompts", "Where the engine's time goes",
        "Over time", "GPU price", "Cost of a million output tokens", "What a step costs", "Where it stops paying",
        "Are outputs unchanged?", "Noise floor", "First divergences", "published claims", "How to make this run again",
    )  # fmt: skip
    assert all(part in words for part in parts)
    assert [words.index(part) for part in parts[:2]] == sorted(words.index(part) for part in parts[:2])
    assert all(words.index(part) > words.index(summary.text) for part in parts[2:])
    assert "torch" in words
    assert "tokens_per_month: 10000000000.0" in words


@pytest.mark.parametrize("name", ["rich", "open loop", "one cell", "nothing", "failed only", "void"])
def test_every_figure_that_a_page_asks_for_has_something_to_draw(name: str, tmp_path: Path) -> None:
    config = {"slo": {"e2e_p95": 0.9}} if name == "open loop" else {}
    run = kept(tmp_path, name, **config)
    summary, measurements = summarize(run), run.measurements()
    data = page_data(summary, measurements)
    drawn = {attrs["data-chart"] for tag, attrs in Page(render_html(summary, measurements)).tags if tag == "figure"}
    marks = {
        "speedup": [c for c in data["cells"] if c["speculative"] and c["speedup"]],
        "pareto": [c for c in data["cells"] if c["throughput"]],
        "latency": [c for c in data["cells"] if c["rate"]],
        "goodput": [c for c in data["cells"] if c["rate"] and c["goodput"] is not None],
        "cost": data["money"]["rows"],
        "telemetry": data["telemetry"]["spans"],
        **{key: data[key] for key in ("acceptance", "categories", "output_positions", "phases", "kv", "steps")},
    }
    marks["intervals"] = marks["speedup"]
    assert drawn == {chart for chart, found in marks.items() if found}


def test_charts_draw_the_figures_of_the_table(data: dict[str, Any], summary: RunSummary) -> None:
    by_name = {(c.label, c.batch_size): c for c in summary.cells}
    assert len(data["cells"]) == len(summary.cells) == 9
    for mark in data["cells"]:
        c = by_name[mark["arm"], mark["batch"]]
        assert (mark["speedup"], mark["low"], mark["high"]) == (c.speedup, c.speedup_ci_low, c.speedup_ci_high)
        assert (mark["throughput"], mark["perUser"]) == (c.output_tokens_per_s, c.per_user_tokens_per_s)
        facts = dict(mark["facts"])
        assert facts["speedup [95%]"].startswith(f"{c.speedup:.2f}")
        assert {"tokens per step (AL)", "TPOT p50", "EUR per M tokens", "outputs"} <= facts.keys()
    shares = [m["percent"] for m in data["phases"] if m["arm"] == "ngram γ4" and m["load"] == "1"]
    assert sum(shares) == pytest.approx(100)
    positions = [m["share"] for m in data["acceptance"] if m["arm"] == "ngram γ4"]
    assert positions == [*by_name["ngram γ4", 1].position_acceptance]


def test_a_phase_tells_its_time_per_step_and_verification_its_share_of_the_memorys_speed(summary: RunSummary) -> None:
    told = {"step_ms": {"verify": 12.5}, "verify_bandwidth_percent": 61.0}
    cells = tuple(replace(c, **told) for c in summary.cells)
    marks = page_data(replace(summary, cells=cells), [])["phases"]
    by_phase = {mark["phase"]: dict(mark["facts"]) for mark in marks}
    assert (by_phase["verify"]["per step"], by_phase["verify"]["of the memory's speed"]) == ("12.50 ms", "61%")
    assert "per step" not in by_phase["prefill"]


def test_drafts_that_were_ready_are_told_and_what_is_modelled_says_so(summary: RunSummary) -> None:
    cells = tuple(replace(c, ready_draft_rate=0.85, second_device_gain=1.234) for c in summary.cells)
    facts = dict(page_data(replace(summary, cells=cells), [])["cells"][0]["facts"])
    assert (facts["drafts ready in time"], facts["with a second device, modelled"]) == ("85%", "1.23× draft_model")
    assert "drafts ready in time" not in dict(page_data(summary, [])["cells"][0]["facts"])


def test_kv_cache_lost_to_the_drafter_is_a_share_of_the_baselines(summary: RunSummary) -> None:
    def with_kv(label: str) -> int:
        return 10_000 if label == "none" else 9_000 if label.startswith("eagle3") else 10_000

    cells = tuple(replace(c, kv_capacity_tokens=with_kv(c.label)) for c in summary.cells)
    marks = {m["arm"]: m for m in page_data(replace(summary, cells=cells), [])["kv"]}
    assert {arm: m["lost"] for arm, m in marks.items()} == {
        "none": 0, "eagle3 γ2": pytest.approx(0.1), "ngram γ4": 0
    }  # fmt: skip


def test_telemetry_stands_end_to_end_and_is_thinned() -> None:
    samples = [Sample(100 + i * 0.1, "gpu0", 2**30, 50.0, power_watts=300.0) for i in range(20_000)]
    taken = telemetry([measurement(telemetry=samples), measurement(NGRAM, telemetry=samples)])
    assert [(s["from"], s["to"]) for s in taken["spans"]] == [
        (0, pytest.approx(1999.9)), (pytest.approx(1999.9), pytest.approx(3999.8))
    ]  # fmt: skip
    rows = taken["samples"]["gpu0"]
    assert 3_000 < len(rows) <= 6_000
    assert dict(zip(taken["readings"], rows[0][1:], strict=True)) == {
        **dict.fromkeys(READINGS), "memory, GiB": 1.0, "utilization, %": 50.0, "power, W": 300.0
    }  # fmt: skip
    assert dict(taken["spans"][0]["facts"])["power, mean"] == "300 W"


def test_key_figures_are_of_what_is_enabled(summary: RunSummary) -> None:
    shown = {k.label: (k.value, k.note) for k in key_figures(summary)}
    enabled = [c for c in summary.cells if c.label == "ngram γ4"]
    low, high = sorted(c.speedup or 0 for c in enabled)[:: len(enabled) - 1]
    assert shown["Speedup"][0] in (f"{low:.2f}–{high:.2f}×", f"{low:.2f}×")
    assert "ngram γ4, batch size 1–4" in shown["Speedup"][1]
    assert shown["Rests on"][0] == "3 launches per arm"
    assert "replicates" in shown["Rests on"][1]
    assert shown["Outputs"][0] == "exact"  # EAGLE-3's divergence is not the chosen arm's


def test_key_figures_of_an_undecided_run_are_of_all_it_measured(summary: RunSummary) -> None:
    undecided = replace(summary, decision=replace(summary.decision, method=None, gamma=None, up_to_batch_size=None))
    shown = {k.label: k for k in key_figures(undecided)}
    assert shown["Outputs"].value == "divergent"
    assert "all 6 speculative cells" in shown["Speedup"].note
    assert "Saved per token" not in shown
    assert key_figures(replace(summary, cells=())) == []


def test_an_open_loops_headline_leaves_void_cells_out(tmp_path: Path) -> None:
    summary = summarize(kept(tmp_path, "open loop"))
    void = [
        replace(c, latency_speedup=99.0, marks=(Mark("client_lag", "Void."),)) if c.is_speculative and i == 0 else c
        for i, c in enumerate(sorted(summary.cells, key=lambda c: not c.is_speculative))
    ]
    assert any("99" in k.value for k in key_figures(replace(summary, cells=tuple(replace(c, marks=()) for c in void))))
    assert not any("99" in k.value for k in key_figures(replace(summary, cells=tuple(void))))


def test_a_divergence_shows_the_shared_text_and_how_each_side_goes_on(run: RunStore, summary: RunSummary) -> None:
    """Three launches diverge there, and it is told once."""
    texts = divergent_texts(summary, run.measurements())
    assert len(texts) == len(summary.divergences) == 1
    plain, changed = output_of("p003", 41), (*output_of("p003", 20), 7)
    first = texts[0]
    assert first.example.cell == f"chat-{EAGLE.label}-b1"
    assert (first.before or "").endswith(f"{plain[19]} ")
    assert (first.baseline or "").startswith(str(plain[20]))
    assert first.output == str(changed[20])


def test_a_divergence_without_a_stored_text_has_its_token_ids(tmp_path: Path) -> None:
    traces = (request(0, gamma=4, token_ids=(*output_of("p000", 4), 7), text="…"),)
    run = store(tmp_path, [measurement(requests=1, lengths=(5,)), measurement(NGRAM, traces=traces)])
    (shown,) = divergent_texts(summarize(run), [])
    assert (shown.before, shown.baseline, shown.output) == (None, None, None)
    assert "became token 7" in Page(page_of(run)).words


def test_marks_are_told_once_with_their_cells_and_the_gravest_first(tmp_path: Path) -> None:
    run = kept(tmp_path, "void")
    found = marked(summarize(run).cells)
    assert found[0].is_void
    assert [m.is_void for m in found] == sorted((m.is_void for m in found), reverse=True)
    (cells, text), *_ = next(m for m in found if m.code == "client_lag").entries
    assert cells == ("ngram γ4, batch size 1, chat",)
    page = Page(page_of(run))
    assert page.words.count(text) == 1
    assert "no evidence for the verdict" in page.words


def test_failures_are_told_with_the_end_of_the_log(tmp_path: Path) -> None:
    words = Page(page_of(kept(tmp_path, "failed only"))).words
    assert HOSTILE[0] in words
    assert " ".join(HOSTILE[1].split()) in words


@pytest.mark.parametrize(
    ("changes", "mark"),
    [
        ({"simulated": {"scenario": "toy"}}, "SIMULATED"),
        ({"config": {"acceptance": 0.7}}, "SYNTHETIC ACCEPTANCE (0.7)"),
    ],
)
def test_what_is_no_measurement_says_so_above_everything_and_in_every_figure(
    run: RunStore, summary: RunSummary, changes: dict[str, Any], mark: str
) -> None:
    page = Page(render_html(replace(summary, manifest={**summary.manifest, **changes}), run.measurements()))
    assert page.words.split("Skip to the verdict")[1].strip().startswith(f"{mark}. ")
    figures = [attrs for tag, attrs in page.tags if tag == "figure"]
    assert page.words.count(f"{mark}: {summary.run}, {summary.machine}") == len(figures) > 8


@given(st.text(st.characters(), max_size=40) | st.sampled_from(HOSTILE))
def test_no_text_ends_the_data_block_or_is_lost_in_it(text: str) -> None:
    block = _script_json({"name": text})
    assert not set("<>&\u2028\u2029") & set(block)
    assert json.loads(block)["name"] == text


def test_text_from_outside_cannot_turn_the_direction_of_ours(tmp_path: Path) -> None:
    html = page_of(kept(tmp_path, "hostile"))
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", html)
    assert "\ufffddesrever" in html
    assert "<img" not in html


def test_vendored_scripts_are_the_published_ones_and_cannot_end_their_element() -> None:
    folder = files("specbench.report.vendor")
    readme = folder.joinpath("README.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| `(\S+\.js)` \|.*\| `([0-9a-f]{64})` \|$", readme, re.MULTILINE))
    scripts = {item.name: item.read_bytes() for item in folder.iterdir() if item.name.endswith(".js")}
    assert named == {name: hashlib.sha256(content).hexdigest() for name, content in scripts.items()}
    licences = folder.joinpath("LICENSES.txt").read_text(encoding="utf-8")
    for name, content in scripts.items():
        assert b"</script" not in content.lower()
        assert b"<!--" not in content
        version = re.search(rb"v(\d+\.\d+\.\d+)", content[:200])
        assert version
        assert f"{version[1].decode()} ({name})" in licences


def test_a_price_that_was_not_given_leaves_its_field_empty(run: RunStore, summary: RunSummary) -> None:
    config = {**summary.manifest["config"], "gpu_price": None}
    page = Page(render_html(replace(summary, manifest={**summary.manifest, "config": config}), run.measurements()))
    fields = {a["id"]: a["value"] for tag, a in page.tags if tag == "input" and "id" in a}
    given = {"gpu_count": "1", "tokens_per_month": str(int(MONEY["tokens_per_month"])), "engineering_cost": "5000"}
    assert fields == {"gpu_price": "", **given}


def contrast(one: str, other: str) -> float:
    """WCAG 2's ratio of relative luminances."""

    def luminance(colour: str) -> float:
        shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_their_ground(scheme: int) -> None:
    css = files("specbench.report.page").joinpath("static/page.css").read_text(encoding="utf-8")
    light, dark = css.split("@media screen and (prefers-color-scheme: dark)")[:2]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", dark if scheme else light))
    for ground in ("page", "card"):
        for text in ("ink", "soft", "accent", "good", "warn", "bad"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    drawn = [pair[scheme] for pair in PAGE_COLOURS] + [colours[name] for name in colours if name.startswith("phase")]
    for colour in (*drawn, colours["gain"], colours["loss"]):
        assert contrast(colour, colours["card"]) >= 3, colour
