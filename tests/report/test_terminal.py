"""The terminal shows a run in 80 columns, with colours only where they are wanted."""

from __future__ import annotations

import io
from pathlib import Path

from known_run import NGRAM, failed, measurement, output_of, store
from rich.console import Console

from specbench.analysis.summary import RunSummary, summarize
from specbench.report.terminal import print_summary
from specbench.speculation import Speculation

LOOP = (1, 2, 3, *[9] * 38)


def shown(summary: RunSummary, width: int = 80, *, terminal: bool = False) -> str:
    stream = io.StringIO()
    print_summary(summary, Console(file=stream, width=width, force_terminal=terminal, highlight=False))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def test_a_tiny_run_in_full(tmp_path: Path) -> None:
    run = [
        measurement(prompts=8),
        measurement(NGRAM, accepted=3, steps=(0.014,)),
        measurement(batch_size=2, requests=16, outputs={12: LOOP}),
        measurement(NGRAM, 2, requests=16, accepted=1, steps=(0.022,), outputs={12: LOOP}),
        failed(NGRAM, 4),
    ]
    assert shown(summarize(store(tmp_path, run))) == (
        "chat\n"
        "                                                  TPOT\n"
        "method   batch tok/s     speedup [95%]       AL p50 ms cost/M outputs\n"
        "─────────────────────────────────────────────────────────────────────\n"
        "none         1  82.0              1.00        –   10.0   6.78 exact\n"
        "none         2 164.0              1.00    – (1)   10.0   3.39 exact\n"
        "ngram γ4     1 170.8 2.08 [2.08, 2.08]     4.00    3.5   3.25 exact\n"
        "ngram γ4     2 151.9 0.93 [0.93, 0.93] 2.00 (1)   11.0   3.66 exact\n"
        "ngram γ4     4     –                 –        –      –      – failed\n"
        "\n"
        "cost/M: EUR per million output tokens, the whole rent put on output.\n"
        "AL: acceptance length, tokens per verification step, the target's own included.\n"
        "AL (n): n degenerate requests (loops or empty) are left out of AL and latency.\n"
        "failed: chat-ngram-g4-b4-r0k0: the server ended with exit code 137.\n"
        "\n"
        "ENABLE UP TO BATCH 1: ngram, gamma 4\n"
        "Enable speculative decoding with ngram and gamma 4 up to batch size 1, not\n"
        "beyond. It gave 2.08× (95% interval 2.08–2.08) at batch size 1 and 0.93×\n"
        "(0.93–0.93) at batch size 2, in output tokens per second against plain decoding.\n"
        "At batch size 1 a million output tokens cost 3.25 EUR, 52% less than without\n"
        "speculation. Outputs are identical to plain decoding, token by token (8 prompts\n"
        "per cell; too few to bound rare divergences). Uncertain: intervals are from one\n"
        "launch and do not show how launches differ (use --replicates); 1 of 24 requests\n"
        "loop or are empty, and are left out of acceptance and latency; 1 of 5 cells\n"
        "failed. Measured on 2-core CPU (Example 9000), 8 GiB, no GPU."
    )


def test_the_widest_rows_fit_80_columns(tmp_path: Path) -> None:
    arm = Speculation("draft_model", 8, "drafts/small")
    changed = (*output_of("p003", 20), 7, *output_of("p003", 41)[21:])
    run = [
        measurement(batch_size=128, requests=512, prompts=64),
        measurement(arm, 128, requests=512, prompts=64, accepted=7, outputs={3: changed, 5: LOOP}, client_lag_p99=0.2),
    ]
    table = shown(summarize(store(tmp_path, run))).split("\n\n")[0].splitlines()
    assert max(map(len, table)) <= 80
    assert "3.33]*" in table[-1]
    assert "divergent" in table[-1]
    assert "…" not in "".join(table)


def test_a_terminal_gets_colours_and_a_file_gets_none(tmp_path: Path) -> None:
    summary = summarize(store(tmp_path, [measurement(), measurement(NGRAM, accepted=3)]))
    assert "\x1b[" in shown(summary, terminal=True)
    assert "\x1b[" not in shown(summary)


def test_text_from_outside_is_no_markup(tmp_path: Path) -> None:
    summary = summarize(store(tmp_path, [failed(error="bad value [red]x[/red] in [/]")]))
    assert "bad value [red]x[/red] in [/]" in shown(summary, width=200)


def test_marks_that_many_cells_share_are_said_once(tmp_path: Path) -> None:
    run = [measurement(batch_size=8), measurement(NGRAM, 8, accepted=3)]
    text = shown(summarize(store(tmp_path, run)), width=300)
    assert text.count("too short for a steady window: run_output_tokens_per_s") == 1
    assert "* chat, none, batch 8 and 1 more: " in text
    assert "(656.0)" in text
