"""The hardware catalogue says what its sources say, and takes a user's own entries."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import catalogue, find_gpu, shipped_bandwidth

GPUS = catalogue()

# Name: GiB, TB/s, bf16 and fp8 TFLOP/s, watts, range of prices per hour (AIConfigurator, InferenceX, price pages).
SOURCES = {
    "H100 SXM": (80, 3.35, 989, 1978, 700, (1.30, 5.00)),
    "H100 PCIe": (80, 2.0, 756, 1513, 350, (1.99, 1.99)),
    "H200": (141, 4.8, 989, 1978, 700, (1.41, 7.00)),
    "B200": (180, 7.7, 2250, 4500, 1000, (1.95, 5.98)),
    "B300": (268.6, 7.75, 2250, 4500, 1100, (2.34, 3.48)),
    "GB200": (185, 8.0, 2500, 5000, 1200, (2.21, 3.30)),
    "GB300": (277.5, 8.0, 2500, 5000, 1400, (2.65, 3.96)),
    "A100 SXM": (80, 2.039, 312, None, 400, (0.80, 3.00)),
    "A100 PCIe": (80, 1.935, 312, None, 300, (1.19, 1.19)),
    "L40S": (45, 0.864, 362, 733, 350, (0.79, 0.79)),
    "L4": (24, 0.30, 121, 242, 72, (0.44, 0.44)),
    "A30": (24, 0.933, 165, None, 165, None),
    "RTX PRO 6000 Server": (95.6, 1.792, 468, 936, 600, (0.89, 0.89)),
    "RTX 4090": (24, 1.008, 165, 330, 450, (0.34, 0.34)),
    "RTX 5090": (32, 1.792, 210, 419, 575, (0.69, 0.69)),
    "MI300X": (192, 5.3, 1307, 2615, None, (1.12, 1.55)),
    "MI325X": (256, 6.0, 1307, 2615, None, (1.28, 1.80)),
    "MI355X": (288, 8.0, 2516, 5033, None, (1.48, 2.10)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_figures_are_those_of_the_sources(name: str) -> None:
    gpu = GPUS[name]
    price = (gpu.price.low, gpu.price.high) if gpu.price else None
    rates = gpu.tflops.get("bf16"), gpu.tflops.get("fp8")
    assert (gpu.memory_gib, gpu.bandwidth_tb_per_s, *rates, gpu.watts, price) == SOURCES[name]


@pytest.mark.parametrize(("name", "quoted"), [("H100 SXM", 2.69), ("H200", 3.59), ("A100 SXM", 1.39)])
def test_a_list_price_is_the_typical_one(name: str, quoted: float) -> None:
    price = GPUS[name].price
    assert price is not None
    assert price.typical == price.list == quoted


def test_every_price_is_dated_and_every_entry_has_a_source() -> None:
    for gpu in GPUS.values():
        assert gpu.source
        assert gpu.price is None or (gpu.price.seen.startswith("2026-") and gpu.price.source)


def test_no_name_means_two_gpus() -> None:
    names = [name for gpu in GPUS.values() for name in (gpu.name, *gpu.aliases)]
    assert [find_gpu(name, GPUS).name for name in names] == [
        gpu.name for gpu in GPUS.values() for _ in (gpu.name, *gpu.aliases)
    ]


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB"),
        ("NVIDIA L4", "L4"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_a_driver_s_name_finds_the_gpu(driver: str, name: str) -> None:
    assert find_gpu(driver, GPUS).name == name
    assert shipped_bandwidth(driver) == GPUS[name].bandwidth


def test_a_part_of_a_gpu_is_not_that_gpu() -> None:
    assert shipped_bandwidth("NVIDIA H100 80GB HBM3 MIG 1g.10gb") is None


@given(st.sampled_from(sorted(GPUS)), st.sampled_from([str.lower, str.upper, lambda n: n.replace(" ", "-")]))
def test_case_blanks_and_hyphens_do_not_matter(name: str, written) -> None:  # type: ignore[no-untyped-def]
    assert find_gpu(written(name), GPUS).name == name


def test_16_bit_formats_share_a_rate_and_others_do_not() -> None:
    assert GPUS["T4"].flops("bf16") == GPUS["T4"].flops("fp16") == 65e12
    assert GPUS["A100 SXM"].flops("fp8") is None


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(SpecbenchError, match="Did you mean H200"):
        find_gpu("H2000", GPUS)


def test_a_user_s_file_adds_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "ours.yaml"
    path.write_text(
        "h100: {price: {low: 2.1, high: 2.1, currency: EUR, seen: 2026-06, source: our contract}}\n"
        "Ours 1: {memory_gib: 64, bandwidth_tb_per_s: 1.5}\n"
    )
    mine = catalogue(path)
    h100, ours = mine["H100 SXM"], mine["Ours 1"]
    assert h100.price is not None
    assert (h100.price.typical, h100.price.currency, h100.bandwidth) == (2.1, "EUR", GPUS["H100 SXM"].bandwidth)
    assert (ours.bandwidth, ours.price, ours.flops("bf16"), ours.source) == (1.5e12, None, None, str(path))
    assert mine.keys() == {*GPUS, "Ours 1"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Ours: {memory_gib: 64}", "Ours: bandwidth_tb_per_s: Field required"),
        ("Ours: {memory_gib: 0, bandwidth_tb_per_s: 1}", "memory_gib: Input should be greater than 0"),
        ("H200: {memory: 141}", "H200: memory: Extra inputs are not permitted"),
        ("H200: {141: 1}", "H200: 141: Keys should be strings"),
        ("H200: 141", "H200: expected fields such as memory_gib; got 141"),
        ("H200: {price: {low: 3, high: 2, seen: 2026-06, source: us}}", "low must not be above high"),
    ],
)
def test_a_mistake_names_the_file_the_entry_and_the_field(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "ours.yaml"
    path.write_text(text)
    with pytest.raises(SpecbenchError) as caught:
        catalogue(path)
    assert str(path) in str(caught.value)
    assert sentence in str(caught.value)
