"""Published claims that were checked: data with sources, and the verdicts as the checks compute them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from specbench.claims.check import Report, check
from specbench.claims.claim import read_claim
from specbench.claims.finding import SEVERITY, Verdict
from specbench.hardware.catalogue import catalogue
from specbench.yaml_file import read_mapping

SHIPPED = Path(__file__).parent / "published.yaml"


class PublishedClaim(BaseModel):
    """by: whether `inputs` decide (one mapping per case, the gravest verdict counts) or a reading of the source does.

    verdict: what the file says; for arithmetic `judge` computes it anew
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: str
    source: str
    verdict: Verdict
    note: str
    by: Literal["arithmetic", "source"] = "arithmetic"
    inputs: tuple[Mapping[str, str | int | float], ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """A published claim with its verdict and, where arithmetic decides, a report per case."""

    published: PublishedClaim
    verdict: Verdict
    reports: tuple[Report, ...]


def published_claims() -> tuple[PublishedClaim, ...]:
    return tuple(map(PublishedClaim.model_validate, read_mapping(SHIPPED)["claims"]))


def judge(published: PublishedClaim) -> Judgement:
    reports = tuple(check(read_claim(inputs, catalogue())) for inputs in published.inputs)
    verdicts = [report.verdict for report in reports] or [published.verdict]
    return Judgement(published, max(verdicts, key=SEVERITY.index), reports)
