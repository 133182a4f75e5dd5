"""`specbench claim` and `specbench gpus` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CLUSTERBID = ("claim", "--gpu", "H200", "--gpu-price", "3.10", "--tokens-per-second", "38", "--cost", "0.19")


def test_an_impossible_cost_is_shown_with_its_working(specbench) -> None:  # type: ignore[no-untyped-def]
    result = specbench(*CLUSTERBID)
    assert result.returncode == 3
    assert result.stdout == (
        "IMPOSSIBLE\n"
        "\n"
        "cost of a million output tokens: impossible\n"
        "  3.10 per GPU-hour × 1 H200 ÷ (38 tokens/s × 3600 s) × 10⁶ = 22.66 per million tokens, with all of the rent "
        "on the output tokens\n"
        "  claimed 0.19: 119 times too low\n"
        "  It would be true with 4,532 tokens per second, or a GPU-hour at 0.02599, or 119.3 tokens billed for each "
        "output token, input tokens among them.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--model-params", "405e9", "--weight-bits", "8", "--gpu", "H200", "--gpu-count", "1"), 3),
        (("--speedup", "2.89", "--acceptance", "0.81", "--gamma", "5"), 0),
        (("--cost-change", "-53%", "--baseline-tokens-per-second", "38", "--tokens-per-second", "91"), 3),
        (("--speedup", "2.89"), 1),
        ((), 1),
    ],
)
def test_the_exit_code_is_the_verdict(arguments: tuple[str, ...], code: int, specbench) -> None:  # type: ignore[no-untyped-def]
    result = specbench("claim", *arguments)
    assert result.returncode == code
    assert len(result.stderr.splitlines()) == (1 if code == 1 else 0)


def test_json_of_a_claim(specbench) -> None:  # type: ignore[no-untyped-def]
    record = json.loads(specbench(*CLUSTERBID, "--json").stdout)
    assert record.keys() == {"inputs", "verdict", "findings"}
    assert record["inputs"] == {"gpu": "H200", "gpu_price": "3.10", "tokens_per_second": "38", "cost": "0.19"}
    (found,) = record["findings"]
    assert found.keys() == {"about", "unit", "verdict", "claimed", "computed", "working", "true_if"}
    assert found["claimed"] == {"value": 0.19, "low": 0.185, "high": 0.195}
    assert found["unit"] == "per million output tokens"


def test_published_claims_as_table_and_json(specbench) -> None:  # type: ignore[no-untyped-def]
    plain, as_json = specbench("claim", "--published"), specbench("claim", "--published", "--json")
    claims = json.loads(as_json.stdout)["claims"]
    assert plain.returncode == as_json.returncode == 0
    assert plain.stdout.count("\n") == len(claims) + 1
    assert all(claim.keys() == {"claim", "source", "by", "verdict", "note", "cases"} for claim in claims)
    assert all(bool(claim["cases"]) == (claim["by"] == "arithmetic") for claim in claims)


def test_a_price_of_one_s_own_makes_another_verdict(specbench, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "ours.yaml").write_text("H200: {price: {low: 0.5, high: 0.5, seen: 2026-06, source: our contract}}\n")
    arguments = ("claim", "--gpu", "H200", "--tokens-per-second", "1000", "--cost", "0.14")
    assert specbench(*arguments).returncode == 3
    assert specbench(*arguments, "--hardware", "ours.yaml").returncode == 0


def test_gpus_are_listed_with_dated_prices(specbench) -> None:  # type: ignore[no-untyped-def]
    title, *lines = specbench("gpus").stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    assert title.startswith("# GPUs: GPU, GiB, ")
    assert ["H200", "141", "4.8", "bf16 989, fp8 1978", "700", "USD 1.41 to 7.00 (3.59)", "2026-03 to 2026-05"] in rows


def test_one_gpu_as_json(specbench) -> None:  # type: ignore[no-untyped-def]
    (gpu,) = json.loads(specbench("gpus", "mi300x", "--json").stdout)["gpus"]
    assert (gpu["name"], gpu["memory_gib"], gpu["watts"]) == ("MI300X", 192.0, None)
    assert gpu["price"].keys() == {"low", "high", "list", "currency", "seen", "source"}


def test_a_gpu_that_is_not_there_is_one_sentence(specbench) -> None:  # type: ignore[no-untyped-def]
    result = specbench("gpus", "H2000")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("specbench: no GPU 'H2000' in the catalogue. Did you mean H200?")
