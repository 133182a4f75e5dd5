"""Made-up acceptance as it is written, `synthetic:0.8`. Without torch."""

from __future__ import annotations

PREFIX = "synthetic:"


def parse_rates(text: str) -> tuple[float, ...]:
    """`synthetic:0.8`, or one rate per draft position, `synthetic:0.9,0.7,0.5`. Raises ValueError.

    A rate is conditional: the probability that the token there is kept, given that all before it were.
    """
    try:
        rates = tuple(float(part) for part in text.removeprefix(PREFIX).split(","))
    except ValueError:
        rates = ()
    if not text.startswith(PREFIX) or not rates or not all(0 <= rate <= 1 for rate in rates):
        raise ValueError(
            "expected synthetic:0.8, or one rate per draft position as in synthetic:0.9,0.7,0.5, each from 0 to 1"
        )
    return rates


def check_rates(rates: tuple[float, ...], gamma: int) -> None:
    """Raise ValueError where positions of a draft would have no rate; a single one is that of every position."""
    if 1 < len(rates) < gamma:
        raise ValueError(f"{len(rates)} acceptance rates for drafts of {gamma} tokens: give one rate, or {gamma}")
