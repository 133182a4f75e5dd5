"""`specbench doctor`: is this machine ready, and did a killed run leave a server behind?"""

from __future__ import annotations

import typer

MARKS = {"ok": "ok", "note": "–", "problem": "PROBLEM"}


def doctor(
    clean: bool = typer.Option(False, "--clean", help="End servers that killed runs left behind."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """What is here, what is missing, what was left behind. Exit code 1 when something needs mending.

    Example: specbench doctor --clean

    Keys of --json: ok, cleaned (pids of the servers that were ended), and checks: per name (python, platform, torch,
    gpus, vllm, sglang, tensorrt_llm, demo_target, cache_disk, working_disk, stale_servers) its state (ok, note or
    problem), text, value and remedy.
    """
    import json
    from dataclasses import asdict

    from specbench.backends import servers
    from specbench.cli.table import print_table
    from specbench.doctor import describe, examine

    ended = servers.clean(servers.stale()) if clean else []
    checks = examine()
    ok = all(check.state != "problem" for check in checks)
    if as_json:
        by_name = {fields.pop("name"): fields for fields in map(asdict, checks)}
        report = {"ok": ok, "cleaned": [server.pid for server in ended], "checks": by_name}
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        for server in ended:
            typer.echo(f"Ended {describe(server)}")
        rows = [(MARKS[check.state], check.name, check.text, check.remedy or "") for check in checks]
        print_table("specbench doctor", ("", "check", "found", "what to do"), rows)
    raise typer.Exit(0 if ok else 1)
