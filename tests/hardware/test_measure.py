"""The present machine's rates, and that they are a catalogue entry as they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch", reason="measuring needs PyTorch")

from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import catalogue
from specbench.hardware.measure import MeasuredRates, measure_rates
from specbench.planning.machine import Machine


def test_what_is_measured_can_be_read_back_as_a_hardware_file(tmp_path: Path) -> None:
    found = measure_rates("cpu", size=128, repeats=3)
    assert found.flops.keys() == {"fp32"}
    assert found.launch_seconds > 0
    path = tmp_path / "here.yaml"
    path.write_text(yaml.safe_dump(found.catalogue_entry()), encoding="utf-8")
    entry = catalogue(path)[found.name]
    assert entry.bandwidth == pytest.approx(found.bandwidth, rel=0.01)
    assert entry.flops("fp32") == pytest.approx(found.flops["fp32"], rel=0.01)


def test_a_measured_machine_is_no_guess_in_the_precision_that_was_measured(tmp_path: Path) -> None:
    rates = MeasuredRates("here", 24 * 2**30, 31.4159e9, {"fp32": 123.456e9}, 2e-6)
    assert rates.catalogue_entry()["here"]["bandwidth_tb_per_s"] == 0.0314
    path = tmp_path / "here.yaml"
    path.write_text(yaml.safe_dump(rates.catalogue_entry()), encoding="utf-8")
    gpu = catalogue(path)["here"]
    assert Machine.of(gpu, precision="fp32").spread == 0
    assert Machine.of(gpu, precision="bf16").spread > 0


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(SpecbenchError, match="no device 'tpu'"):
        measure_rates("tpu")
