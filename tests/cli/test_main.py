"""The command as a whole: quick to answer, and the same names from release to release."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {
    "torch",
    "transformers",
    "pandas",
    "numpy",
    "scipy",
    "matplotlib",
    "aiohttp",
    "pyarrow",
    "duckdb",
    "rich",
    "vllm",
}


def test_help_imports_nothing_heavy() -> None:
    """What takes long to import may be missing, too: --help must work without torch, and in a blink."""
    code = (
        "import sys\n"
        "from specbench.cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print('imported:', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    imported = set(output.splitlines()[-1].removeprefix("imported:").split())
    assert imported & HEAVY == set()


def test_commands(specbench) -> None:  # type: ignore[no-untyped-def]
    listed = specbench("--help").stdout.partition("Commands:")[2]
    commands = [line.split()[0] for line in listed.splitlines() if line.strip()]
    assert set(commands) == {
        *("sweep", "report", "compare", "verify", "profile", "serve", "power", "claim", "gpus"),
        *("doctor", "workload", "backend", "train", "gate", "baseline", "history", "query", "recommend", "fit"),
        *("simulate", "plan"),
    }


def test_version(specbench) -> None:  # type: ignore[no-untyped-def]
    from specbench import __version__

    assert specbench("--version").stdout == f"specbench {__version__}\n"


def test_an_unknown_option_is_a_usage_error(specbench) -> None:  # type: ignore[no-untyped-def]
    assert specbench("sweep", "--gama", "4").returncode == 2
