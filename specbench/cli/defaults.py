"""Help that shows a configuration's defaults, which the options themselves do not have: a YAML file may set them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


class ConfiguredCommand(TyperCommand):
    """A command whose options are fields of `SweepConfig`; it is asked for their defaults only when help is wanted."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from specbench.sweep.config import SweepConfig

        for option in self.params:
            field = SweepConfig.model_fields.get(option.name or "")
            if field is not None and (default := shown_default(field)):
                option.help = f"{getattr(option, 'help', '')} [default: {default}]"  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def shown_default(field: FieldInfo) -> str | None:
    """As it is written on the command line; None where there is none, or it is off or empty."""
    from specbench.quantities import seconds

    value = None if field.is_required() else field.get_default(call_default_factory=True)
    if value is None or value is False or (isinstance(value, tuple | Mapping | str) and not value):
        return None
    unit = "s" if any(getattr(rule, "func", None) is seconds for rule in field.metadata) else ""
    return ",".join(_written(part) for part in value) if isinstance(value, tuple) else f"{_written(value)}{unit}"


def _written(value: object) -> str:
    return (
        f"{value:g}" if isinstance(value, int | float) else str(value) if isinstance(value, str | Path) else repr(value)
    )
