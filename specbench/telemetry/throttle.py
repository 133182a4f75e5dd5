"""Why a GPU's clocks are not higher: NVML's clocks event reasons as words."""

from __future__ import annotations

_WORDS = (
    "gpu_idle",
    "application_clocks",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake",
    "display_clocks",
    "board_limit",
    "reliability",
)
"""By bit, the lowest first (nvml.h, nvmlClocksEventReason…)."""

HARDWARE = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake"})
"""The board protects itself: too hot, or too little power from outside. Clocks may fall by half or more."""

SLOWING = HARDWARE | {"sw_thermal_slowdown", "sw_power_cap"}
"""Reasons under which a busy GPU is slower than the same GPU would be elsewhere or later."""


def words(reasons: int) -> str:
    """The bits of `reasons` as words joined by "+", such as `sw_power_cap+hw_slowdown`; unknown ones in hexadecimal."""
    known = [word for bit, word in enumerate(_WORDS) if reasons >> bit & 1]
    unknown = reasons >> len(_WORDS) << len(_WORDS)
    return "+".join([*known, *([f"{unknown:#x}"] if unknown else [])])
