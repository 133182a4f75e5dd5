"""What a forward pass runs on, as far as the performance model asks: rates, how sure they are, how GPUs are linked."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.hardware.catalogue import Gpu, Precision


@dataclass(frozen=True, slots=True)
class Machine:
    """bandwidth: bytes/s of one device's memory, peak;  flops: FLOP/s of one device, dense, peak;  count: devices
    link_bandwidth: bytes/s between devices;  link_latency: seconds of one all-reduce, however small
    spread: standard deviation of ln rate where the rates are guesses; 0 for data-sheet figures
    """

    bandwidth: float
    flops: float
    count: int = 1
    link_bandwidth: float = 450e9
    link_latency: float = 10e-6
    spread: float = 0.0

    @classmethod
    def of(cls, gpu: Gpu, count: int = 1, precision: Precision = "bf16") -> Machine:
        """Where the catalogue has no rate for the precision, that of 16 bits, or 200 FLOP per byte, with less trust."""
        exact = gpu.flops(precision)
        return cls(
            gpu.bandwidth, exact or gpu.flops("bf16") or 200 * gpu.bandwidth, count, spread=0.0 if exact else 0.5
        )


UNKNOWN = Machine(bandwidth=100e9, flops=5e12, spread=2.0)
"""Anything from a few CPU cores to a GPU that the catalogue does not have: the measurements must tell."""
