"""The page in a real browser: it asks the network for nothing, and works for every reader."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from known_pages import HOSTILE, MONEY, kept, page_of

from specbench.analysis.cost import Economics, cost_per_million_output_tokens, gpus_needed, payback_months
from specbench.analysis.summary import RunSummary, summarize
from specbench.report import figures
from specbench.report.html import render_html
from specbench.store.run import RunStore

if TYPE_CHECKING:
    from chromium import Chromium

NAMES = ("rich", "small", "hostile", "open loop", "one cell", "nothing", "failed only", "void")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunStore]:
    slo = {"open loop": {"slo": {"e2e_p95": 0.9}}}
    return {name: kept(tmp_path_factory.mktemp("run"), name, **slo.get(name, {})) for name in NAMES}


@pytest.fixture(scope="module")
def summary(runs: dict[str, RunStore]) -> RunSummary:
    return summarize(runs["rich"])


@pytest.fixture(scope="module")
def pages(runs: dict[str, RunStore], summary: RunSummary, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name, run in runs.items():
        made[name] = tmp_path_factory.mktemp("page") / "report.html"
        of = summary if name == "rich" else summarize(run)
        made[name].write_text(render_html(of, run.measurements()), encoding="utf-8")
    return made


@pytest.mark.parametrize("name", NAMES)
def test_no_page_complains_or_asks_for_anything_but_itself(
    chromium: Chromium, pages: dict[str, Path], name: str
) -> None:
    chromium.show(pages[name])
    assert chromium.logs("browser") == []
    assert chromium.requests() == [pages[name].as_uri()]
    drawn = chromium.run("return [...document.querySelectorAll('figure')].every((f) => f.querySelector('.hit > *'))")
    assert drawn


def test_a_request_is_impossible(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.show(pages["rich"])
    chromium.run("""
        window.refused = [];
        addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
        fetch("https://example.invalid/").catch(() => 0);
        document.body.append(Object.assign(new Image(), { src: "https://example.invalid/x.png" }));
        setTimeout(() => { try { eval("1") } catch { } });  // the browser's driver itself may use eval
    """)
    chromium.wait("return refused.length >= 3")
    assert sorted(chromium.run("return refused")) == ["connect-src", "img-src", "script-src"]


@pytest.mark.parametrize(
    ("name", "scheme", "rules"),
    [("small", "light", None), ("small", "dark", ["color-contrast"]), ("failed only", "light", None)],
)
def test_the_page_has_no_barrier_that_a_scanner_finds(
    chromium: Chromium, pages: dict[str, Path], name: str, scheme: str, rules: list[str] | None
) -> None:
    from axe_core_python.selenium import Axe

    chromium.show(pages[name], prefers_color_scheme=scheme)
    chromium.run("for (const d of document.querySelectorAll('details:not(.figures)')) d.open = true;")
    found = Axe().run(chromium.driver, options={"runOnly": rules} if rules else None)
    assert [(v["id"], v["nodes"][0]["html"][:200], v["nodes"][0]["failureSummary"]) for v in found["violations"]] == []


def test_charts_and_text_have_the_colours_of_the_readers_scheme(chromium: Chromium, pages: dict[str, Path]) -> None:
    colours = """
        const style = (selector) => getComputedStyle(document.querySelector(selector));
        return [style("body").backgroundColor, style("body").color, style("[data-chart=pareto] .drawing path").stroke];
    """
    shown = {}
    for scheme in ("light", "dark"):
        chromium.show(pages["rich"], prefers_color_scheme=scheme)
        shown[scheme] = chromium.run(colours)
    assert all(light != dark for light, dark in zip(shown["light"], shown["dark"], strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_on_the_heat_map_can_be_read(chromium: Chromium, pages: dict[str, Path], scheme: str) -> None:
    chromium.show(pages["rich"], prefers_color_scheme=scheme)
    ratios = chromium.run("""
        const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const luminance = (colour) => {
            context.fillStyle = colour;
            context.fillRect(0, 0, 1, 1);
            const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map((value) => {
                const share = value / 255;
                return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
        };
        const ink = luminance(getComputedStyle(document.body).color);
        return [...document.querySelectorAll("[data-chart=speedup] .hit rect")].map((cell) => {
            const ground = luminance(getComputedStyle(cell).fill);
            return Math.max(ink, ground) / Math.min(ink, ground);
        });
    """)
    assert len(ratios) == 6
    assert min(ratios) >= 4.5


def test_motion_is_left_out_for_readers_who_want_none(chromium: Chromium, pages: dict[str, Path]) -> None:
    scroll = "return getComputedStyle(document.documentElement).scrollBehavior"
    chromium.show(pages["nothing"], prefers_reduced_motion="reduce")
    assert chromium.run(scroll) == "auto"
    chromium.show(pages["nothing"], prefers_reduced_motion="no-preference")
    assert chromium.run(scroll) == "smooth"


@pytest.mark.parametrize("name", ["rich", "hostile", "open loop", "failed only"])
def test_a_phone_scrolls_the_page_downwards_only(chromium: Chromium, pages: dict[str, Path], name: str) -> None:
    chromium.show(pages[name], width=390)
    chromium.run("for (const d of document.querySelectorAll('details')) d.open = true;")
    assert chromium.run("return document.documentElement.scrollWidth") <= 390
    beyond = """
        return [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > 391
            && !e.closest(".scroll, pre, svg")).map((e) => e.outerHTML.slice(0, 120))
    """
    assert chromium.run(beyond) == []


def test_pointer_and_keyboard_are_told_the_same(
    chromium: Chromium, pages: dict[str, Path], summary: RunSummary
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    chromium.show(pages["rich"])
    cell = next(c for c in summary.cells if (c.label, c.batch_size) == ("ngram γ4", 2))
    told = (f"{figures.speedup(cell)}", figures.acceptance_length_in_full(cell), "EUR per M tokens", "exact")
    (mark,) = chromium.all("[data-chart=speedup] [aria-label^='ngram γ4, batch size 2,']")
    label = mark.get_attribute("aria-label") or ""
    assert all(text in label for text in told)
    ActionChains(chromium.driver).move_to_element(mark).perform()
    tip = chromium.one("#tip")
    assert tip.is_displayed()
    pointed = tip.text
    assert all(text in pointed for text in told)
    chromium.press("ESCAPE")
    assert not tip.is_displayed()
    chromium.run("arguments[0].focus()", mark)
    assert tip.is_displayed()
    assert tip.text == pointed
    inside = (
        "const b = document.getElementById('tip').getBoundingClientRect(); return b.left >= 0 && b.right <= innerWidth"
    )
    assert chromium.run(inside)


def test_every_figure_is_one_tab_stop_and_arrows_reach_all_its_marks(
    chromium: Chromium, pages: dict[str, Path]
) -> None:
    chromium.show(pages["rich"])
    stops: list[str] = []
    where = """
        const e = document.activeElement;
        return e === document.body ? "" : e.matches(".hit > *") ? e.closest("figure").dataset.chart
            : e.id || e.className || e.tagName
    """
    for _ in range(120):
        chromium.press("TAB")
        stops.append(chromium.run(where))
        if not stops[-1]:
            break
    charts = [f.get_attribute("data-chart") for f in chromium.all("figure")]
    assert stops[0] == "skip"
    assert [stop for stop in stops if stop in charts] == charts
    assert {"gpu_price", "gpu_count", "tokens_per_month", "engineering_cost", "config", "BUTTON"} <= set(stops)

    chromium.run("document.querySelector('[data-chart=speedup] .hit > [tabindex=\"0\"]').focus()")
    name = "return document.activeElement.mark?.name"
    first = chromium.run(name)
    seen = [first]
    for key in ("ARROW_RIGHT",) * 5:
        chromium.press(key)
        seen.append(chromium.run(name))
    assert len(set(seen)) == 6  # two methods, three batch sizes
    chromium.press("HOME")
    assert chromium.run(name) == first
    chromium.press("ARROW_LEFT")  # nothing lies there
    assert chromium.run(name) == first


def test_each_chart_has_its_figures_as_a_table(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.show(pages["rich"])
    for figure in chromium.all("figure"):
        told = "[...arguments[0].querySelectorAll('.hit > *')].map((e) => e.mark.name + e.mark.facts)"
        marks = chromium.run(f"return new Set({told}).size", figure)
        rows = chromium.run("return arguments[0].querySelectorAll('.figures tbody tr').length", figure)
        assert rows == marks > 0


def set_field(chromium: Chromium, name: str, value: str) -> None:
    chromium.run(
        "const f = document.getElementById(arguments[0]); f.value = arguments[1]; f.dispatchEvent(new Event('input'))",
        name, value,
    )  # fmt: skip


def bills(chromium: Chromium) -> list[dict[str, str]]:
    return chromium.run("""
        const entry = (cell) => [cell.dataset.figure, cell.textContent];
        const bill = (row) => Object.fromEntries([...row.querySelectorAll("[data-figure]")].map(entry));
        return [...document.querySelectorAll("#bills [data-row]")].map(bill);
    """)


def expected_bills(summary: RunSummary, economics: Economics) -> list[dict[str, str]]:
    """The table by the formulas of the analysis."""
    plain = {c.batch_size: c for c in summary.cells if c.is_baseline}
    found = []
    for c in summary.cells:
        gpus = gpus_needed(c.output_tokens_per_s, economics)
        before = gpus_needed(plain[c.batch_size].output_tokens_per_s, economics)
        counts = c.saving_percent is not None and (c.speedup_ci_low or 0) > 1
        saved = before - gpus if counts and before is not None and gpus is not None else None
        months = payback_months(before, gpus, economics) if saved is not None else None
        rent = None if gpus is None or economics.gpu_price is None else gpus * economics.gpu_price * 730
        found.append({
            "cost": figures.money(cost_per_million_output_tokens(c.output_tokens_per_s, economics)),
            "gpus": figures.number(gpus, 0),
            "rent": figures.number(rent, 0),
            "saved": figures.number(saved, 0),
            "payback": "never" if saved is not None and saved <= 0 else figures.number(months, 1),
        })  # fmt: skip
    return found


def test_the_page_starts_from_the_figures_of_the_table(
    chromium: Chromium, pages: dict[str, Path], summary: RunSummary
) -> None:
    chromium.show(pages["rich"])
    shown = bills(chromium)
    assert [row["cost"] for row in shown] == [figures.money(c.cost_per_million_output_tokens) for c in summary.cells]
    assert [row["gpus"] for row in shown] == [figures.number(c.gpus_needed, 0) for c in summary.cells]
    assert [row["saved"] for row in shown] == [figures.number(c.gpus_saved, 0) for c in summary.cells]
    paid = [figures.number(c.payback_months, 1) for c in summary.cells if c.payback_months is not None]
    assert [row["payback"] for row in shown if row["payback"][0].isdigit()] == paid != []


SAID: tuple[dict[str, Any], ...] = (
    {"gpu_price": 3.1, "gpu_count": 8, "tokens_per_month": 2.5e11, "engineering_cost": 120_000},
    {"gpu_price": 0.07, "tokens_per_month": 3e6, "engineering_cost": 1e6},
    {"gpu_price": 11.25, "gpu_count": 3, "tokens_per_month": 1e13},
    {"gpu_price": 2.0},
    {"tokens_per_month": 1e10, "engineering_cost": 5e3},
    {},
)


def test_what_the_reader_says_changes_the_figures_as_the_analysis_would(
    chromium: Chromium, pages: dict[str, Path], summary: RunSummary
) -> None:
    chromium.show(pages["rich"])
    for said in SAID:
        for name in ("gpu_price", "gpu_count", "tokens_per_month", "engineering_cost"):
            set_field(chromium, name, str(said.get(name, "")))
        assert bills(chromium) == expected_bills(summary, Economics(**said)), said
        assert chromium.one("[data-chart=cost]").is_displayed() == ("gpu_price" in said)
    assert chromium.logs("browser") == []


def test_a_slider_moved_by_keyboard_sets_its_number_and_the_figures(
    chromium: Chromium, pages: dict[str, Path], summary: RunSummary
) -> None:
    chromium.show(pages["rich"])
    for name, key, higher in (("gpu_price", "PAGE_UP", True), ("tokens_per_month", "ARROW_LEFT", False)):
        before = float(chromium.run("return document.getElementById(arguments[0]).value", name))
        chromium.run("document.querySelector(`[data-name=${arguments[0]}] [type=range]`).focus()", name)
        chromium.press(key)
        after = float(chromium.run("return document.getElementById(arguments[0]).value", name))
        assert (after > before) is higher
    said = {name: float(chromium.run("return document.getElementById(arguments[0]).value", name)) for name in MONEY}
    assert bills(chromium) == expected_bills(summary, Economics(**said))
    spoken = chromium.one("[data-name=gpu_price] [type=range]").get_attribute("aria-valuetext")
    assert float(spoken or 0) == said["gpu_price"]
    sentence = chromium.one("#bill").text
    assert sentence.startswith("ngram γ4 at batch size")
    chromium.one("#sliders [type=reset]").click()
    chromium.wait(f"return document.getElementById('gpu_price').value === '{MONEY['gpu_price']:g}'")
    chromium.wait(
        "return document.getElementById('bill').textContent !== arguments[0]".replace(
            "arguments[0]", json.dumps(sentence)
        )
    )
    assert bills(chromium) == expected_bills(summary, Economics(**MONEY))


def test_the_sentence_says_what_the_table_says(chromium: Chromium, pages: dict[str, Path], summary: RunSummary) -> None:
    chromium.show(pages["rich"])
    best = max((c for c in summary.cells if c.label == "ngram γ4"), key=lambda c: c.saving_percent or 0)
    text = chromium.one("#bill").text
    for part in (
        f"{best.cost_per_million_output_tokens:.2f} EUR",
        f"{best.saving_percent:.0f}% less",
        f"{best.gpus_needed} GPUs",
    ):
        assert part in text
    set_field(chromium, "tokens_per_month", "1000")
    assert "no whole GPU is saved" in chromium.one("#bill").text
    set_field(chromium, "gpu_price", "")
    assert "Set a GPU price" in chromium.one("#bill").text


def test_fewer_gpus_than_the_server_used_are_not_priced(
    chromium: Chromium, tmp_path: Path, summary: RunSummary
) -> None:
    run = kept(tmp_path / "run", "rich", tensor_parallel=4, gpu_count=4)
    (tmp_path / "report.html").write_text(page_of(run), encoding="utf-8")
    chromium.show(tmp_path / "report.html")
    set_field(chromium, "gpu_count", "1")
    assert bills(chromium) == expected_bills(summary, Economics(**MONEY, gpu_count=4))


def test_names_from_outside_are_shown_and_never_run(chromium: Chromium, pages: dict[str, Path]) -> None:
    for name in ("hostile", "failed only"):
        chromium.show(pages[name])
        assert chromium.run("return window.hacked ?? null") is None
        assert chromium.run("return document.images.length") == 0
    chromium.show(pages["hostile"])
    titles = chromium.run("return [...document.querySelectorAll('[data-chart=pareto] h4')].map((e) => e.textContent)")
    assert titles[0] == HOSTILE[0]
    assert titles[1] == HOSTILE[1]
    assert len(titles[4]) == 60  # cut
    table = chromium.run("return [...document.querySelectorAll('#speed caption')].map((e) => e.textContent)")
    assert table[4] == HOSTILE[4]


def test_paper_is_white_and_holds_what_the_screen_folds_away(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.show(pages["rich"], media="print", prefers_color_scheme="dark")
    shown = "const e = document.querySelector(arguments[0]); return e.checkVisibility ? e.checkVisibility() : true"
    assert chromium.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not chromium.run(shown, "nav")
    assert not chromium.run(shown, ".slider [type=range]")
    assert chromium.run(shown, "#gpu_price")
    pdf = base64.b64decode(chromium.cdp("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.count(b"/Type /Page\n") > 3
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    assert chromium.run("return [...document.querySelectorAll('details:not(.figures)')].every((d) => d.open)")
    chromium.run("dispatchEvent(new Event('afterprint'))")
    assert chromium.run("return [...document.querySelectorAll('details')].every((d) => !d.open)")


def test_the_recipe_can_be_copied(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.cdp("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    chromium.show(pages["rich"])
    chromium.one("[data-copies=config]").click()
    chromium.wait("return document.getElementById('copied').textContent !== ''")
    assert chromium.one("#copied").text == "Copied: configuration."
    copied = chromium.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert copied == chromium.run("return document.getElementById('config').textContent")
    assert "gpu_price: 2.0" in copied


def test_a_figure_is_drawn_anew_where_its_width_changes(chromium: Chromium, pages: dict[str, Path]) -> None:
    width = "return document.querySelector('[data-chart=pareto] .drawing svg').viewBox.baseVal.width"
    chromium.show(pages["rich"])
    wide = chromium.run(width)
    screen = {"width": 600, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.cdp("Emulation.setDeviceMetricsOverride", screen)
    chromium.wait(f"{width} < {wide}")
    assert chromium.run(width) <= 600
