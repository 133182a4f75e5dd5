"""What two runs must have in common to be compared, and what may differ and is then named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.comparison.snapshot import Snapshot
from specbench.differences import Difference, differing
from specbench.sweep.config import CONTINUABLE, SweepConfig

_GRID = ("workload", "method", "gamma", "tree", "suffix_cached_requests", "batch_size", "request_rate")
_UNDER_TEST = ("drafter", "python", "container", "scenario", "engine_version", "url", "baseline_url")
"""Where the engine and the drafter come from: a new version of either is what gates are for."""

_ELSEWHERE = ("target", "arrival", "baseline_vs_baseline", "allow_lossy", "skip_bad_lines")
_FREE = {*_GRID, *_UNDER_TEST, *_ELSEWHERE, *CONTINUABLE}

WORK = ("format", "prompts", "requests", "max_tokens", "temperature", "top_p", "top_k", "seed", "chat_template_kwargs")
"""Options that say what requests are sent: the same even where two configurations are compared."""

_ENGINE = [name for name in SweepConfig.model_fields if name not in _FREE and name not in WORK]


def fingerprint(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Target, prompts, hardware, and every engine option but its version, flat."""
    config, target = manifest["config"], manifest.get("target", {})
    return {
        "backend": config.get("backend"),
        "target": target.get("digest") or target.get("name"),
        "hardware": manifest.get("hardware", {}).get("kind"),
        **{f"workload {w['name']}": w["sha256"] for w in manifest.get("workloads", ())},
        "arrivals": (manifest.get("arrivals") or {}).get("sha256") or config.get("arrival"),
        "largest batch size": max(config.get("batch_size", (0,))),
        **{f"--{name.replace('_', '-')}": config[name] for name in (*WORK, *_ENGINE) if name in config},
    }


def made_with(manifest: Mapping[str, Any], launches: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Versions, drafters, code and environment, flat."""
    config = manifest["config"]
    engines = sorted({f"{record['engine']} {record['version']}" for record in launches.values()})
    git = manifest.get("git") or {}
    found: dict[str, Any] = {
        "engine": ", ".join(engines),
        **{f"version of {name}": version for name, version in manifest.get("versions", {}).items()},
        "commit": git.get("commit"),
        "measuring code": manifest.get("code"),
        **{f"drafter {method}": digest for method, digest in manifest.get("drafters", {}).items()},
        "container": config.get("container"),
        "scenario": manifest.get("simulated", {}).get("sha256"),
        **{f"variable {name}": value for name, value in manifest.get("environment", {}).items()},
    }
    return {name: value for name, value in found.items() if value}


def changes(before: Snapshot, after: Snapshot) -> list[Difference]:
    """What differs between the two runs and may be why a figure changed."""
    made = {*before.made_with, *after.made_with}
    known = before.fingerprint.keys() & after.fingerprint.keys()
    return [
        *differing(before.made_with, after.made_with, made),
        *differing(before.fingerprint, after.fingerprint, known),
    ]
