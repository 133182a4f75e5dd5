"""The shape of an EAGLE-3 head, read from either of the two layouts in which heads are published."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.decoder.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Eagle3Config:
    """One decoder layer over the target's features (Li et al., 2025, "EAGLE-3").

    layer:                the decoder layer; its `hidden_size` is the head's own
    target_hidden_size:   width of the target's features
    draft_vocab_size:     tokens that it can propose
    taps:                 the target's layers whose inputs it reads (Hugging Face's `hidden_states[i]`)
    norm_before_fc:       the concatenated features are RMS-normalised together
    fc_norm:              each tap is RMS-normalised by itself
    norm_before_residual: the layer's residual stream begins with the normalised features
    norm_output:          the next draft step is fed what the head reads, after the final norm (EAGLE 3.1), not before
    """

    layer: ModelConfig
    target_hidden_size: int
    draft_vocab_size: int
    taps: tuple[int, ...]
    norm_before_fc: bool
    fc_norm: bool
    norm_before_residual: bool
    norm_output: bool

    @classmethod
    def from_directory(cls, directory: str | Path, target: ModelConfig) -> Eagle3Config:
        """Read `directory`/config.json, of the SafeAILab (SGLang, SpecForge) or the speculators layout.

        Raises ValueError, naming the file, for what is no EAGLE-3 head or can't be run here.
        """
        path = Path(directory) / "config.json"
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(f"{directory} has no config.json. Give the directory of an EAGLE-3 head.") from None
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} can't be read as JSON: {error}.") from None
        try:
            return cls.from_fields(raw, target)
        except KeyError as missing:
            raise ValueError(f"{path} lacks the field {missing}.") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any], target: ModelConfig) -> Eagle3Config:
        """Of a config's content. Raises ValueError and KeyError as `from_directory` explains."""
        speculators = "speculators_model_type" in raw
        if speculators and raw["speculators_model_type"] != "eagle3":
            raise ValueError(f"speculators_model_type {raw['speculators_model_type']!r} is not eagle3.")
        if not speculators and "draft_vocab_size" not in raw:
            raise ValueError("no draft_vocab_size and no speculators_model_type: this is not an EAGLE-3 head.")
        layer = ModelConfig.from_fields(raw["transformer_layer_config"] if speculators else raw)
        if layer.num_layers != 1:
            raise ValueError(f"an EAGLE-3 head of {layer.num_layers} layers can't be run, only of one.")
        nested = raw.get("eagle_config") or {}
        options = {**raw, **nested}
        ids = options.get("eagle_aux_hidden_state_layer_ids")
        return cls(
            layer=layer,
            target_hidden_size=raw.get("target_hidden_size") or target.hidden_size,
            draft_vocab_size=raw["draft_vocab_size"] or layer.vocab_size,
            taps=tap_layers(ids, target.num_layers),
            norm_before_fc=bool(options.get("norm_before_fc", False)),
            fc_norm=bool(options.get("fc_norm", False)),
            # What vLLM, which reads both layouts, takes where the field is missing.
            norm_before_residual=bool(options.get("norm_before_residual", speculators)),
            norm_output=bool(options.get("norm_output", False)),
        )


def tap_layers(ids: Sequence[int] | None, num_layers: int) -> tuple[int, ...]:
    """The target's layers whose inputs a head reads; without ids, EAGLE-3's own: 2, N/2 and N-3 of N layers.

    Two conventions are about. vLLM, speculators and NVIDIA name the layer whose input is meant, as we do; SpecForge and
    SGLang name the one whose output is meant, 1, N/2-1 and N-4 for the same features. A first id of 1 tells them apart,
    as it does in SGLang since May 2026. The wrong one costs about 0.1 accepted tokens a step, and no error.
    """
    if not ids:
        ids = (2, num_layers // 2, num_layers - 3)
    elif ids[0] == 1:
        ids = [i + 1 for i in ids]
    if not all(0 <= i <= num_layers for i in ids) or list(ids) != sorted(set(ids)):
        raise ValueError(
            f"eagle_aux_hidden_state_layer_ids {list(ids)} do not fit a target of {num_layers} layers. "
            "Is this the head of another target?"
        )
    return tuple(ids)
