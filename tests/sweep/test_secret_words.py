"""Which words of an engine's command line hold a secret: a run must not write it down, nor refuse anything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.sweep.config_file import load_config
from specbench.sweep.secret_words import secret_setting

KEY = "sk-0123456789"
SGLANG = json.loads((Path(__file__).parents[1] / "contract_servers" / "sglang_flags.json").read_text())


@pytest.mark.parametrize(
    "argument",
    [
        *(f"--api-key={KEY}", f"--api-key {KEY}", f"--api_key={KEY}", f"--api-k {KEY}", f"--hf-token {KEY}"),
        *(f"--hf-tok={KEY}", f"--block-size=32 --admin-api-key={KEY}", f"--ssl-keyfile-password={KEY}"),
        *(f"moe_config.api_key={KEY}", f"--model-loader-extra-config.access_token {KEY}", f"--my-secret={KEY}"),
        f"""--model-loader-extra-config='{{"s3": [{{"aws_secret_access_key": "{KEY}"}}]}}'""",
        f"""--model-loader-extra-config '{{"token": "{KEY}"}}'""",
    ],
)
def test_a_secret_is_refused_unseen_and_the_way_out_said(argument: str) -> None:
    with pytest.raises(SpecbenchError, match="HF_TOKEN for --hf-token") as refusal:
        load_config(None, {"workload": ["chat.jsonl"], "engine_arg": [argument]})
    assert KEY not in str(refusal.value)


@pytest.mark.parametrize(
    "argument",
    [
        *("--max-tokens=8", "--tokenizer x", "--max-num-batched-tokens 4096", "--long-prefill-token-threshold=4"),
        *("--ssl-keyfile=key.pem", "--allow-credentials", "--dbo-decode-token-threshold=2", "--spec-tokens=4"),
        *(
            "--num-experts-per-token=2",
            "moe_config.backend=TRTLLM",
            "--log-level=token",
            "--fail-on-environ-validation",
        ),
        """--hf-overrides='{"eos_token": "x", "num_key_value_heads": 2, "token": 4}'""",
        "--hf-overrides={oops",
    ],
)
def test_whatever_else_is_measured(argument: str) -> None:
    assert load_config(None, {"workload": ["chat.jsonl"], "engine_arg": [argument]}).engine_arg == (argument,)


def test_of_all_of_sglangs_flags_those_that_take_a_secret_are_refused() -> None:
    flags = [flag for entry in SGLANG for flag in entry["flags"]]
    refused = {flag for flag in flags if secret_setting([f"{flag}=x"])}
    assert refused == {"--api-key", "--admin-api-key", "--ssl-keyfile-password"}
    assert len(flags) > 300


def test_a_quotation_without_end_does_not_print_the_secret() -> None:
    with pytest.raises(SpecbenchError, match="--api-key takes a secret") as refusal:
        load_config(None, {"workload": ["chat.jsonl"], "engine_arg": [f"--api-key '{KEY}"]})
    assert KEY not in str(refusal.value)
