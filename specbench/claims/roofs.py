"""Checks against the hardware: do the weights fit, can they be read so often, what is the chip's ridge.

A check's parameters are named after the inputs of a claim (`Claim`); those with a default may be unknown.
"""

from __future__ import annotations

from specbench.claims import arithmetic
from specbench.claims.figure import Figure, shown, spread
from specbench.claims.finding import Finding, agreement, at_most, judged, off
from specbench.hardware.catalogue import Gpu

TOKENS_PER_S = "tokens per second"
INTENSITY = "FLOP per byte"


def weights_fit(gpu: Gpu, gpus_text: str, gpu_count: Figure, model_params: Figure, weight_bits: Figure) -> Finding:
    """The weights alone: KV cache and activations come on top."""
    needed = spread(arithmetic.weight_bytes, model_params, weight_bits)
    there = Figure.exact(gpu.memory * gpu_count.value)
    fits = at_most(needed, there)
    least = arithmetic.gpus_for(needed.value, gpu.memory)
    left = (
        f"{_gb(there.value - needed.value)} are left for KV cache and activations"
        if fits == "consistent"
        else f"{least} GPUs at least, and KV cache and activations come on top"
    )
    working = (
        f"weights: {_params(model_params)} × {weight_bits} bit = {_gb(needed.value)}",
        f"{gpus_text}: {shown(gpu.memory_gib * gpu_count.value)} GiB ({_gb(there.value)}); {left}",
    )
    true_if = (
        f"{least} GPUs",
        f"weights of {shown(8 * there.value / model_params.value)} bits at most",
        f"a model of {_params(Figure.exact(8 * there.value / weight_bits.value))} at most",
    )
    return judged("weights in the memory", "bytes", fits, needed, there, working, true_if)


def stream_roof(gpu: Gpu, gpus_text: str, gpu_count: Figure, params_read: Figure, weight_bits: Figure) -> Finding:
    """What a single stream without speculation can reach; it only follows."""
    roof = _roof(gpu, gpu_count, params_read, weight_bits)
    working = f"{_reading(gpu, gpus_text, gpu_count, params_read, weight_bits)} = {roof} tokens/s in a single stream"
    return Finding("memory roof", TOKENS_PER_S, None, None, roof, (working,))


def baseline_roof(
    gpu: Gpu,
    gpus_text: str,
    gpu_count: Figure,
    params_read: Figure,
    weight_bits: Figure,
    batch_size: Figure,
    baseline_tokens_per_second: Figure,
) -> Finding:
    steps = _roof(gpu, gpu_count, params_read, weight_bits)
    roof = spread(arithmetic.multiplied, steps, batch_size)
    working = (
        f"{_reading(gpu, gpus_text, gpu_count, params_read, weight_bits)} = {steps} steps/s at most",
        f"× batch size {batch_size} = {roof.span()} tokens/s; claimed {baseline_tokens_per_second} without speculation",
    )
    true_if = _more(baseline_tokens_per_second, roof, batch_size, gpu_count)
    verdict = at_most(baseline_tokens_per_second, roof)
    return judged(
        "memory roof of the baseline", TOKENS_PER_S, verdict, baseline_tokens_per_second, roof, working, true_if
    )


def throughput_roof(
    gpu: Gpu,
    gpus_text: str,
    gpu_count: Figure,
    params_read: Figure,
    weight_bits: Figure,
    batch_size: Figure,
    tokens_per_second: Figure,
    acceptance_length: Figure | None = None,
    gamma: Figure | None = None,
    acceptance: Figure | None = None,
    speedup: Figure | None = None,
) -> Finding:
    """With speculation a step yields several tokens per stream; how many at most, its other figures say."""
    steps = _roof(gpu, gpu_count, params_read, weight_bits)
    per_step = _tokens_per_step(acceptance_length, gamma, acceptance)
    if per_step is None and speedup is None:
        per_step = Figure.exact(1)
    reading = _reading(gpu, gpus_text, gpu_count, params_read, weight_bits)
    plain = spread(arithmetic.multiplied, steps, batch_size)
    needed = tokens_per_second.value / plain.high
    working = f"{reading} = {steps} steps/s at most"
    if per_step is None:
        line = f"{tokens_per_second} tokens/s at batch size {batch_size} need {shown(needed)} tokens per step at least"
        return Finding("memory roof", TOKENS_PER_S, None, None, plain, (working, line))
    roof = spread(arithmetic.multiplied, plain, per_step)
    lines = (
        working,
        f"× batch size {batch_size} × {per_step} per step = {roof.span()} tokens/s; claimed {tokens_per_second}",
    )
    true_if = (
        f"speculation with {shown(needed)} tokens per step or more",
        *_more(tokens_per_second, roof, batch_size, gpu_count),
    )
    return judged(
        "memory roof", TOKENS_PER_S, at_most(tokens_per_second, roof), tokens_per_second, roof, lines, true_if
    )


def ridge_of_gpu(gpu: Gpu, ridge: Figure) -> Finding:
    """Peak arithmetic over peak bandwidth, in 16 bits: below it decoding waits for memory."""
    flops = gpu.flops("bf16")
    if flops is None:
        return Finding("ridge", INTENSITY, None, None, None, (f"the catalogue has no 16-bit FLOP/s of {gpu.name}",))
    computed = Figure.exact(flops / gpu.bandwidth)
    working = (
        f"{gpu.name}: {flops / 1e12:g} TFLOP/s in 16 bits ÷ {gpu.bandwidth_tb_per_s:g} TB/s = {computed} FLOP per byte",
        off(ridge, computed),
    )
    true_if = (f"a ridge of {computed} FLOP per byte",)
    return judged("ridge", INTENSITY, agreement(ridge, computed), ridge, computed, working, true_if)


def intensity_of_decoding(decode_intensity: Figure, weight_bits: Figure, batch_size: Figure | None = None) -> Finding:
    sequences = batch_size or Figure.exact(1)
    computed = spread(arithmetic.decode_intensity, sequences, weight_bits)
    working = (
        f"2 FLOP per parameter × {sequences} sequences ÷ ({weight_bits} ÷ 8) bytes = {computed} FLOP per byte",
        off(decode_intensity, computed),
    )
    true_if = (
        f"batch size {shown(decode_intensity.value * weight_bits.value / 16)}",
        f"weights of {shown(16 * sequences.value / decode_intensity.value)} bits",
    )
    verdict = agreement(decode_intensity, computed)
    return judged("arithmetic intensity of decoding", INTENSITY, verdict, decode_intensity, computed, working, true_if)


def kv_of_the_drafter(kv_shape: Figure, draft_kv_shape: Figure, kv_increase: Figure) -> Finding:
    computed = spread(arithmetic.ratio, draft_kv_shape, kv_shape)
    working = (
        f"per token of context the drafter keeps {draft_kv_shape} values and the target {kv_shape}: "
        f"{computed.value:+.2%} at one precision",
        f"claimed {kv_increase}",
    )
    true_if = (f"a drafter with {shown(kv_increase.value * kv_shape.value)} values per token",)
    verdict = agreement(kv_increase, computed)
    return judged("KV cache of the drafter", "of the target's", verdict, kv_increase, computed, working, true_if)


def _roof(gpu: Gpu, gpus: Figure, params: Figure, bits: Figure) -> Figure:
    return spread(
        lambda p, b: arithmetic.steps_per_s_roof(gpu.bandwidth * gpus.value, arithmetic.weight_bytes(p, b)),
        params,
        bits,
    )


def _reading(gpu: Gpu, gpus_text: str, gpus: Figure, params: Figure, bits: Figure) -> str:
    read = arithmetic.weight_bytes(params.value, bits.value)
    return f"{gpus_text}: {shown(gpu.bandwidth_tb_per_s * gpus.value)} TB/s ÷ {_gb(read)} of weights per step"


def _tokens_per_step(length: Figure | None, gamma: Figure | None, acceptance: Figure | None) -> Figure | None:
    if length is not None:
        return length
    if gamma is not None:
        return spread(arithmetic.longest_length, acceptance or Figure.exact(1), gamma)
    return None


def _more(claimed: Figure, roof: Figure, batch: Figure, gpus: Figure) -> tuple[str, ...]:
    short = claimed.value / roof.high
    return (
        f"batch size {arithmetic.gpus_for(short * batch.high, 1)} or more",
        f"{arithmetic.gpus_for(short * gpus.value, 1)} GPUs or more",
    )


def _gb(size: float) -> str:
    return f"{shown(size / 1e9)} GB"


def _params(parameters: Figure) -> str:
    return f"{shown(parameters.value / 1e9)} B parameters"
