"""Tables of the reference decoder, from its benchmarks' result files."""

from __future__ import annotations

import json
from statistics import median

from markdown_table import METHODS, RESULTS, ROOT, table


def decoder_table() -> str:
    """Our decoder beside transformers, from benchmarks/decoder_vs_transformers.py --json."""
    rows = []
    for name in ("decoder_vs_transformers", "decoder_vs_transformers_avx2"):
        report = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
        machine, count = report["machine"].split(", ")[1], report["prompts"]
        rows += [
            (
                machine, r["dtype"], r["pair"], f"{1e3 * r['ours']:.1f} ms", f"{1e3 * r['transformers']:.1f} ms",
                f"{r['ratio']:.2f} ×", f"{r['mean_acceptance_length']:.2f}",
                f"{count - r['differing_prompts']} of {count}",
            )
            for r in report["results"]
        ]  # fmt: skip
    head = (
        "vectors",
        "weights",
        "batch 1",
        "ours, per token",
        "transformers",
        "ratio",
        "tokens per step",
        "same outputs",
    )
    return table(head, rows)


def trees_table() -> str:
    """Tokens per step of chains, trees and ways of verifying, from benchmarks/draft_trees.py."""
    report = json.loads((RESULTS / "draft_trees.json").read_text("utf-8"))
    rows = [
        (
            METHODS[r["method"]],
            f"`{r['tree']}`",
            str(r["nodes"]),
            f"{r['temperature']:g}",
            r["verification"] if r["temperature"] else "greedy",
            f"{r['tokens_per_step']:.2f} [{r['low']:.2f}, {r['high']:.2f}]",
        )
        for r in report["results"]
    ]
    return table(("drafter", "draft", "nodes", "temperature", "verification", "tokens per step [95 %]"), rows)


def head_table() -> str:
    """Acceptance of the demo drafters on prompts that they were not trained on."""
    rows = []
    for method in ("eagle3", "eagle", "mtp", "medusa", "draft_model"):
        report = json.loads((ROOT / "specbench" / "demo" / "weights" / f"{method}.json").read_text("utf-8"))
        for name, row in report["acceptance"].items():
            sound = row["prompts"] - row["loops_left_out"]
            by_position = " ".join(f"{p:.2f}" for p in row["position_acceptance"])
            length = f"{row['mean_acceptance_length']:.2f}"
            rows.append((METHODS[method], name, f"{sound} of {row['prompts']}", length, by_position))
    head = ("drafter", "prompts of", "answers without a loop", "tokens per step at γ 3", "accepted by position")
    return table(head, rows)


def kernel_table() -> str:
    """What the decoder's kernels take of two GPUs, from benchmarks/compile_kernels.py."""
    kernels = json.loads((RESULTS / "kernels.json").read_text("utf-8"))["kernels"]
    found = {(k["kernel"], k["capability"]): k for k in kernels}
    rows = []
    for name in dict.fromkeys(k["kernel"] for k in kernels):
        both = found[name, 80], found[name, 90]
        taken = [str(k[key]) for k in both for key in ("registers", "shared_bytes", "spilled_bytes")]
        rows.append((name, str(both[0]["warps"]), *taken))
    told = ("registers", "shared bytes", "spilled bytes")
    return table(("kernel", "warps", *(f"{gpu}: {what}" for gpu in ("A100", "H100") for what in told)), rows)


def engines_table() -> str:
    """Our decoder beside vLLM and llama.cpp, from benchmarks/decoder_vs_engines.py."""
    report = json.loads((RESULTS / "decoder_vs_engines.json").read_text("utf-8"))
    rows = []
    for r in report["results"]:
        ratios = [ours / theirs for ours, theirs in zip(r["ours"], r["theirs"], strict=True)]
        method = METHODS.get(r["method"], "plain")
        rates = (f"{median(r[side]):.1f} tok/s" for side in ("ours", "theirs"))
        shown = f"{median(ratios):.2f} ×" + (f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else "")
        rows.append((r["engine"], method, str(r["batch_size"]), *rates, shown))
    return table(("engine", "method", "batch", "ours", "theirs", "ratio"), rows)


def bandwidth_table() -> str:
    """Shares of the memory's speed that plain decoding reaches, from benchmarks/decode_bandwidth.py."""
    report = json.loads((RESULTS / "decode_bandwidth.json").read_text("utf-8"))
    rows = [
        (
            r["weights"],
            f"{r['step_ms']:.1f} ms",
            f"{r['step']:.0%}",
            f"{r['products_ms']:.1f} ms",
            f"{r['products']:.0%}",
        )
        for r in report["results"]
    ]
    whole = f"share of {report['read_gb_per_s']:.1f} GB/s"
    return table(("weights", "step", whole, "products", "share"), rows)


def other_drafts_table() -> str:
    """Drafts without a trained head, from benchmarks/other_drafts.py."""
    report = json.loads((RESULTS / "other_drafts.json").read_text("utf-8"))
    rows = []
    for r in report["results"]:
        phases = " · ".join(f"{phase} {ms:.1f}" for phase, ms in r["step_ms"].items() if phase != "host")
        told = []
        if r["ready_draft_rate"] is not None:
            told.append(f"ready {r['ready_draft_rate']:.0%}, second device {r['second_device_gain']:.2f} × (modelled)")
        if r["skipped"] is not None:
            told.append(f"{r['skipped']} sublayers left out, agreement {r['agreement']:.0%} after {r['trials']} trials")
        arm = f"{METHODS.get(r['method'], r['method'])}, γ {r['gamma']}" if r["gamma"] else "none"
        accepted = "–" if r["accepted"] is None else f"{r['accepted']:.0%}"
        rows.append((arm, f"{r['tokens_per_step']:.2f}", accepted, phases, "; ".join(told) or "–"))
    return table(("drafts", "tokens per step", "accepted", "ms of a step", "found"), rows)
