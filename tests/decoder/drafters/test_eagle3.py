"""EAGLE-3 drafts as the paper says, from the right features, and changes no token."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from driving import Watched
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

from specbench.decoder.config import ModelConfig
from specbench.decoder.drafters import features
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.models.eagle3 import Eagle3Head
from specbench.decoder.models.eagle3_config import Eagle3Config, tap_layers
from specbench.decoder.models.llama import Llama
from specbench.decoder.policies.base import Step
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams

BATCH_SIZES, GAMMAS, MAX_TOKENS = (1, 3, 8), (1, 2, 3, 5), 24
PROMPTS = [list(text.encode()) for text in ("abcabcabc", "The quick brown fox", "x", "0101010101", "{}")]
OPTIONS = ("norm_before_fc", "fc_norm", "norm_before_residual", "norm_output")
GREEDY = SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS, ignore_eos=True)
SAMPLED = SamplingParams(temperature=0.8, max_tokens=MAX_TOKENS, ignore_eos=True)


def decode(engine: Engine, params: SamplingParams) -> dict[str, list[int]]:
    fields = {name: getattr(params, name) for name in SamplingParams.__dataclass_fields__}
    for i, prompt in enumerate(PROMPTS):
        engine.add(Request(str(i), prompt, SamplingParams(**{**fields, "seed": 7 + i})))
    tokens: dict[str, list[int]] = {str(i): [] for i in range(len(PROMPTS))}
    while engine.has_work:
        for output in engine.step():
            tokens[output.request_id].extend(output.token_ids)
    return tokens


@pytest.fixture(scope="module")
def plain(deep_target: Path) -> dict[str, list[int]]:
    return decode(load_engine(deep_target, max_model_len=64), GREEDY)


@pytest.fixture(scope="module")
def likely(plain: dict[str, list[int]]) -> list[int]:
    """The few tokens that the target says most: a random head that can say only these is right now and then."""
    return [token for token, _ in Counter(chain(*plain.values())).most_common(6)]


def engine(target: Path, head: Path, gamma: int, **settings: Any) -> Engine:
    return load_engine(target, method="eagle3", gamma=gamma, drafter=head, **{"max_model_len": 64, **settings})


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("batch_size", BATCH_SIZES)
def test_greedy_tokens_do_not_change(
    deep_target: Path,
    save_head: Callable[..., Path],
    likely: list[int],
    plain: dict[str, list[int]],
    batch_size: int,
    gamma: int,
) -> None:
    speculating = engine(deep_target, save_head(likely, norm_output=True), gamma, max_batch_size=batch_size)
    assert decode(speculating, GREEDY) == plain
    assert 0 < speculating.counters.accepted < speculating.counters.drafted


@pytest.mark.parametrize("gamma", [1, 4])
def test_a_seed_gives_the_same_tokens_under_coupled_verification(
    deep_target: Path, save_head: Callable[..., Path], likely: list[int], gamma: int
) -> None:
    coupled = decode(load_engine(deep_target, verification="coupled", max_model_len=64), SAMPLED)
    speculating = engine(deep_target, save_head(likely), gamma, verification="coupled", max_batch_size=3)
    assert decode(speculating, SAMPLED) == coupled
    assert speculating.counters.accepted > 0


class Straight:
    """EAGLE-3 written down from the paper: no cache, no batch, all computed anew for every draft token."""

    def __init__(self, target: Path, head: Path, options: dict[str, bool], taps: Sequence[int] = (2, 4, 5)) -> None:
        self.model = LlamaForCausalLM.from_pretrained(target).eval()
        self.w = load_file(head / "model.safetensors")
        self.options, self.taps = options, taps
        self.prefix = "midlayer." if "midlayer.hidden_norm.weight" in self.w else "layers.0."

    @torch.no_grad()
    def logits(self, tokens: Sequence[int], drafted: Sequence[int]) -> list[torch.Tensor]:
        """[V_d] for each drafted token, given those before it."""
        states = self.model(torch.tensor([tokens[:-1]]), output_hidden_states=True).hidden_states
        hidden = list(self._fuse(torch.cat([states[i][0] for i in self.taps], -1)))
        following = list(tokens[1:])
        out = []
        for token in drafted:
            read, own = self._layer(torch.stack(hidden), torch.tensor(following))
            out.append(self.w["lm_head.weight"] @ read)
            hidden.append(own)
            following.append(token)
        return out

    def _fuse(self, g: torch.Tensor) -> torch.Tensor:
        if self.options.get("norm_before_fc"):
            g = self._norm(g, "input_norm.weight")
        if self.options.get("fc_norm"):
            g = torch.cat([self._norm(part, f"fc_norm.{i}.weight") for i, part in enumerate(g.chunk(3, -1))], -1)
        return g @ self.w["fc.weight"].T

    def _layer(self, g: torch.Tensor, following: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        w, prefix = self.w, self.prefix
        e = self._norm(self.model.model.embed_tokens(following), f"{prefix}input_layernorm.weight")
        m = self._norm(g, f"{prefix}hidden_norm.weight")
        q, k, v = (torch.cat([e, m], -1) @ w[f"{prefix}self_attn.{name}_proj.weight"].T for name in "qkv")
        q, k, v = (x.unflatten(-1, (-1, 8)).transpose(0, 1) for x in (q, k, v))
        k, v = k.repeat_interleave(2, 0), v.repeat_interleave(2, 0)
        attended = F.scaled_dot_product_attention(self._rope(q), self._rope(k), v, is_causal=True)
        y = m if self.options.get("norm_before_residual") else g
        y = y + attended.transpose(0, 1).flatten(1) @ w[f"{prefix}self_attn.o_proj.weight"].T
        h = self._norm(y, f"{prefix}post_attention_layernorm.weight")
        gate, up = (h @ w[f"{prefix}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        y = (y + (F.silu(gate) * up) @ w[f"{prefix}mlp.down_proj.weight"].T)[-1]
        read = self._norm(y, "norm.weight")
        return read, read if self.options.get("norm_output") else y

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return self.w[name] * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    @staticmethod
    def _rope(x: torch.Tensor) -> torch.Tensor:
        # x [heads, T, D]
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(half) / half)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


@pytest.mark.parametrize("options", [{}, *({name: True} for name in OPTIONS), dict.fromkeys(OPTIONS, True)], ids=str)
def test_drafts_are_those_of_a_straight_implementation(
    deep_target: Path, save_head: Callable[..., Path], likely: list[int], options: dict[str, bool]
) -> None:
    head = save_head(likely, **options)
    speculating = engine(deep_target, head, 3, max_batch_size=3)
    watched = Watched(speculating)
    decode(speculating, SAMPLED)
    straight, ids = Straight(deep_target, head, options), torch.tensor(sorted(likely))
    for sequences, draft in watched.drafts[::4]:
        assert draft.probs is not None
        for row, tokens in enumerate(sequences):
            if tokens is None:
                continue
            drafted = [token for token in draft.tokens[row].tolist() if token >= 0]
            for step, logits in enumerate(straight.logits(tokens, drafted)):
                torch.testing.assert_close(
                    draft.probs[row, step, ids], (logits / 0.8).softmax(-1), atol=2e-5, rtol=1e-3
                )


def test_probabilities_outside_the_draft_vocabulary_are_zero(
    deep_target: Path, save_head: Callable[..., Path], likely: list[int]
) -> None:
    speculating = engine(deep_target, save_head(likely), 2)
    watched = Watched(speculating)
    decode(speculating, SAMPLED)
    for _, draft in watched.drafts:
        assert draft.probs is not None
        outside = draft.probs.index_fill(2, torch.tensor(likely), 0.0)
        assert outside.count_nonzero() == 0
        torch.testing.assert_close(draft.probs.sum(-1), torch.ones(draft.probs.shape[:2]))


def test_a_draft_after_steps_without_one_is_as_if_there_had_been_none(
    deep_target: Path, save_head: Callable[..., Path], likely: list[int]
) -> None:
    head = save_head(likely)
    speculating = engine(deep_target, head, 3, max_batch_size=2)
    watched = Watched(speculating)
    for id, prompt in enumerate(PROMPTS[:2]):
        speculating.add(Request(str(id), prompt, GREEDY))
    step = 0
    while speculating.has_work:
        # Two steps of three go without a draft; the features wait.
        speculating.gamma = 3 if step % 3 == 0 else 0
        speculating.step()
        step += 1
    straight, ids = Straight(deep_target, head, {}), sorted(likely)
    assert len(watched.drafts) > 3
    for sequences, draft in watched.drafts:
        for row, tokens in enumerate(sequences):
            drafted = [token for token in draft.tokens[row].tolist() if token >= 0]
            if tokens is not None:
                assert drafted == [ids[int(logits.argmax())] for logits in straight.logits(tokens, drafted)]


def test_both_layouts_hold_the_same_head(deep_target: Path, save_head: Callable[..., Path], likely: list[int]) -> None:
    outputs = []
    for layout in ("safeailab", "speculators"):
        speculating = engine(deep_target, save_head(likely, layout, fc_norm=True), 3)
        outputs.append((decode(speculating, GREEDY), speculating.counters.accepted_at))
    assert outputs[0] == outputs[1]


def test_taps_are_the_hidden_states_of_transformers(deep_target: Path) -> None:
    target = Llama.from_directory(deep_target, torch.float32, torch.device("cpu"))
    from specbench.decoder.cache import KVCache
    from specbench.decoder.models.prefill import prefill

    taps = tap_layers(None, target.config.num_layers)
    assert taps == (2, 4, 5)
    cache = KVCache(target.config, 1, 32, target.dtype, target.device)
    hidden = prefill(target, cache, 0, PROMPTS[1], logits=0, taps=(*taps, 8)).hidden
    model = LlamaForCausalLM.from_pretrained(deep_target).eval()
    with torch.no_grad():
        states = model(torch.tensor([PROMPTS[1]]), output_hidden_states=True).hidden_states
    assert hidden is not None
    for place, tap in enumerate(taps):
        torch.testing.assert_close(hidden[0, :, place], states[tap][0], atol=1e-5, rtol=1e-4)
    # After the last layer transformers gives the normed state, which the head reads; we give it before the norm.
    torch.testing.assert_close(model.model.norm(hidden[0, :, 3]), states[8][0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("ids", [None, [2, 15, 27], [1, 14, 26]])
def test_both_conventions_of_tap_ids_name_the_same_layers(ids: list[int] | None) -> None:
    assert tap_layers(ids, num_layers=30) == (2, 15, 27)


@pytest.mark.parametrize("nested", [True, False])
def test_tap_ids_are_read_where_each_layout_has_them(
    deep_target: Path, save_head: Callable[..., Path], nested: bool
) -> None:
    ids = {"eagle_aux_hidden_state_layer_ids": [1, 2, 6]}
    head = save_head([1, 2], "safeailab", eagle_config=ids) if nested else save_head([1, 2], "speculators", **ids)
    config = Eagle3Config.from_directory(head, ModelConfig.from_directory(deep_target))
    assert config.taps == (2, 3, 7)


def _altered(head: Path, tmp_path: Path, **fields: Any) -> Path:
    copy = tmp_path / "altered"
    shutil.copytree(head, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, **fields}))
    return copy


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"vocab_size": 300}, "trained for this target"),
        ({"target_hidden_size": 64}, "trained for this target"),
        ({"num_hidden_layers": 2}, "only of one"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 9, 12]}, "another target"),
        ({"draft_vocab_size": 3}, "what 2 tokens mean"),
    ],
    ids=str,
)
def test_a_head_of_another_target_is_refused_in_words(
    deep_target: Path, save_head: Callable[..., Path], tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        engine(deep_target, _altered(save_head([1, 2]), tmp_path, **fields), 2)


def test_a_model_that_is_no_head_is_refused_in_words(deep_target: Path) -> None:
    with pytest.raises(ValueError, match="not an EAGLE-3 head"):
        engine(deep_target, deep_target, 2)
    with pytest.raises(ValueError, match="needs the directory"):
        load_engine(deep_target, method="eagle3", gamma=2)


def test_the_head_says_what_its_cache_and_its_weights_cost(deep_target: Path, save_head: Callable[..., Path]) -> None:
    target = Llama.from_directory(deep_target, torch.float32, torch.device("cpu"))
    directory = save_head([1, 2, 3], fc_norm=True)
    stored = load_file(directory / "model.safetensors")
    parameters = sum(t.numel() for name, t in stored.items() if name not in ("d2t", "t2d"))
    assert Eagle3Head.from_directory(directory, target).weights_bytes == 4 * parameters
    drafter = engine(deep_target, directory, 2).drafter
    assert drafter.kv_bytes_per_token == 2 * 2 * 8 * 4


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize(
    "rule",
    [
        "schedule:1=3+2=1+5=2",
        "adaptive:threshold+max=5",
        "adaptive:goodput+max=3",
        "adaptive:confidence+max=5+below=0.3",
    ],
)
def test_greedy_tokens_do_not_change_where_gamma_does(
    deep_target: Path,
    save_head: Callable[..., Path],
    likely: list[int],
    plain: dict[str, list[int]],
    rule: str,
    batch_size: int,
) -> None:
    speculating = load_engine(
        deep_target,
        method="eagle3",
        gamma=rule,
        drafter=save_head(likely, norm_output=True),
        max_batch_size=batch_size,
        max_model_len=64,
    )
    assert decode(speculating, GREEDY) == plain
    assert speculating.counters.drafted > 0


def test_features_of_a_long_time_without_a_draft_are_entered_in_chunks(
    deep_target: Path, save_head: Callable[..., Path], likely: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def drafted() -> list[list[list[int]]]:
        speculating = engine(deep_target, save_head(likely), 3, max_batch_size=3)
        speculating.policy = Seldom()
        watched = Watched(speculating)
        decode(speculating, GREEDY)
        return [draft.tokens.tolist() for _, draft in watched.drafts]

    whole = drafted()
    monkeypatch.setattr(features, "CHUNK", 2)
    assert drafted() == whole
    assert len(whole) > 3


class Seldom:
    """Lets everybody draft at every seventh step."""

    stop_below: float | None = None
    largest = 3

    def __init__(self) -> None:
        self._steps = 0

    def choose(self, sessions: Sequence[Hashable]) -> list[int]:
        self._steps += 1
        return [0 if self._steps % 7 else 3] * len(sessions)

    def observe(self, step: Step) -> None:
        pass

    def forget(self, session: Hashable) -> None:
        pass
