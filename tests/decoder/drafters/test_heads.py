"""EAGLE-1, Medusa and MTP heads draft as their papers say, from the right features, and change no token."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from driving import Watched, run, tokens
from heads import eagle_tensors, faster_decoding, medusa_tensors, mtp_tensors, save, speculators
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

from specbench.decoder.drafters.medusa import MedusaDrafter
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams

METHODS = ("eagle", "medusa", "mtp")
SAID = (32, 97, 98, 101, 116, 120)
PROMPTS = [list(text.encode()) for text in ("abcabcabc", "The quick brown fox", "x", "0101010101", "{}")]
GREEDY = SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True)
SAMPLED = SamplingParams(temperature=0.8, max_tokens=24, ignore_eos=True)


def requests(params: SamplingParams) -> list[Request]:
    fields = {name: getattr(params, name) for name in SamplingParams.__dataclass_fields__}
    return [Request(str(i), p, SamplingParams(**{**fields, "seed": 7 + i})) for i, p in enumerate(PROMPTS)]


@pytest.fixture(scope="module")
def terse(save_llama: Callable[..., Path]) -> Path:
    """A target that says few tokens: a random head that speaks through its lm_head is right now and then."""
    directory = save_llama()
    model = LlamaForCausalLM.from_pretrained(directory)
    silent = torch.ones(258, dtype=torch.bool).index_fill_(0, torch.tensor(SAID), False)
    model.lm_head.weight.data[silent] = 0
    model.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def shape(terse: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((terse / "config.json").read_text())
    return config


@pytest.fixture(scope="module")
def heads(shape: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("heads")
    tensors = {
        "eagle": eagle_tensors(shape),
        "medusa": medusa_tensors(shape, 4, SAID),
        "mtp": speculators(mtp_tensors(shape)),
    }
    return {method: save(folder / method, tensors[method], shape, method) for method in METHODS}


def engine(target: Path, method: str, head: Path | None, gamma: int | str, **settings: Any) -> Engine:
    return load_engine(target, method=method, gamma=gamma, drafter=head, **{"max_model_len": 64, **settings})


@pytest.fixture(scope="module")
def plain(terse: Path) -> dict[str, list[int]]:
    return tokens(run(load_engine(terse, max_model_len=64), requests(GREEDY)))


@pytest.mark.parametrize(("batch_size", "gamma"), [(1, 3), (3, 1), (3, 4), (3, "adaptive:confidence+max=3+below=0.3")])
@pytest.mark.parametrize("method", METHODS)
def test_greedy_tokens_do_not_change(
    terse: Path, heads: dict[str, Path], plain: dict[str, list[int]], method: str, batch_size: int, gamma: int | str
) -> None:
    speculating = engine(terse, method, heads[method], gamma, max_batch_size=batch_size)
    assert tokens(run(speculating, requests(GREEDY))) == plain
    assert 0 < speculating.counters.accepted < speculating.counters.drafted


@pytest.mark.parametrize("method", METHODS)
def test_a_seed_gives_the_same_tokens_under_coupled_verification(
    terse: Path, heads: dict[str, Path], method: str
) -> None:
    few = replace(SAMPLED, top_k=2)  # of all that it seldom says, something would come nearly always
    coupled = tokens(run(load_engine(terse, verification="coupled", max_model_len=64), requests(few)))
    speculating = engine(terse, method, heads[method], 3, verification="coupled", max_batch_size=3)
    assert tokens(run(speculating, requests(few))) == coupled
    assert speculating.counters.accepted > 0


class Straight:
    """The heads written down from their papers: no cache, no batch, all computed anew for every draft token."""

    def __init__(self, target: Path, head: Path) -> None:
        self.model = LlamaForCausalLM.from_pretrained(target).eval()
        self.w = load_file(head / "model.safetensors")

    @torch.no_grad()
    def logits(self, method: str, text: Sequence[int], drafted: Sequence[int]) -> list[torch.Tensor]:
        """For each drafted token, given those before it. text: its newest token the target has not read yet"""
        states = self.model(torch.tensor([text[:-1]]), output_hidden_states=True).hidden_states
        features = states[-1][0]  # after the final norm
        if method == "medusa":
            return [self._medusa(features[-1], k) for k in range(len(drafted))]
        hidden, following, out = list(features), list(text[1:]), []
        for token in drafted:
            embedded = self.model.model.embed_tokens(torch.tensor(following))
            own = (self._eagle if method == "eagle" else self._mtp)(embedded, torch.stack(hidden))[-1]
            out.append(self.model.lm_head(own))
            hidden.append(own)
            following.append(token)
        return out

    def _medusa(self, h: torch.Tensor, k: int) -> torch.Tensor:
        moved = h + F.silu(self.w[f"blocks.{k}.layers.0.weight"] @ h + self.w[f"blocks.{k}.layers.0.bias"])
        return self.w[f"lm_heads.{k}.weight"] @ moved

    def _eagle(self, e: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
        u = torch.cat([e, f], -1) @ self.w["fc.weight"].T + self.w["fc.bias"]
        return self._layer("layers.0.", u, u)

    def _mtp(self, e: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
        p = "mtp_layers.0."
        e, f = self._norm(e, f"{p}token_layernorm.weight"), self._norm(f, f"{p}hidden_layernorm.weight")
        u = torch.cat([e, f], -1) @ self.w[f"{p}input_proj.weight"].T
        return self._norm(self._layer(p, u, self._norm(u, f"{p}input_layernorm.weight")), f"{p}final_layernorm.weight")

    def _layer(self, p: str, residual: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        q, k, v = (read @ self.w[f"{p}self_attn.{name}_proj.weight"].T for name in "qkv")
        q, k, v = (x.unflatten(-1, (-1, 8)).transpose(0, 1) for x in (q, k, v))
        k, v = k.repeat_interleave(2, 0), v.repeat_interleave(2, 0)
        attended = F.scaled_dot_product_attention(self._rope(q), self._rope(k), v, is_causal=True)
        y = residual + attended.transpose(0, 1).flatten(1) @ self.w[f"{p}self_attn.o_proj.weight"].T
        h = self._norm(y, f"{p}post_attention_layernorm.weight")
        gate, up = (h @ self.w[f"{p}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        return y + (F.silu(gate) * up) @ self.w[f"{p}mlp.down_proj.weight"].T

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return self.w[name] * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    @staticmethod
    def _rope(x: torch.Tensor) -> torch.Tensor:
        # x [heads, T, D]
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(half) / half)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


@pytest.mark.parametrize("method", ["eagle", "mtp"])
def test_drafts_are_drawn_from_the_distributions_of_a_straight_implementation(
    terse: Path, heads: dict[str, Path], method: str
) -> None:
    speculating = engine(terse, method, heads[method], 3, max_batch_size=3)
    watched = Watched(speculating)
    run(speculating, requests(SAMPLED))
    straight = Straight(terse, heads[method])
    for sequences, draft in watched.drafts[::4]:
        assert draft.probs is not None
        for row, text in enumerate(sequences):
            drafted = [token for token in draft.tokens[row].tolist() if token >= 0]
            for step, logits in enumerate(straight.logits(method, text, drafted) if text else ()):
                torch.testing.assert_close(draft.probs[row, step], (logits / 0.8).softmax(-1), atol=2e-5, rtol=1e-3)


def test_medusa_drafts_the_best_token_of_every_head_whoever_samples(terse: Path, heads: dict[str, Path]) -> None:
    speculating = engine(terse, "medusa", heads["medusa"], 4, max_batch_size=3)
    watched = Watched(speculating)
    run(speculating, requests(SAMPLED))
    straight = Straight(terse, heads["medusa"])
    assert len(watched.drafts) > 10
    for sequences, draft in watched.drafts[::2]:
        assert draft.probs is None
        for row, text in enumerate(sequences):
            drafted = [token for token in draft.tokens[row].tolist() if token >= 0]
            if text is not None:
                best = [SAID[int(logits.argmax())] for logits in straight.logits("medusa", text, drafted)]
                assert drafted == best


def test_medusa_drafts_no_further_than_it_has_heads(
    terse: Path, heads: dict[str, Path], plain: dict[str, list[int]]
) -> None:
    speculating = engine(terse, "medusa", heads["medusa"], 6)
    watched = Watched(speculating)
    assert tokens(run(speculating, requests(GREEDY))) == plain
    assert max(draft.width for _, draft in watched.drafts) == 4


def test_a_tree_of_medusa_begins_with_the_chain(terse: Path, heads: dict[str, Path]) -> None:
    speculating = engine(terse, "medusa", heads["medusa"], 3, max_batch_size=1)
    speculating.add(requests(GREEDY)[0])
    speculating.step()
    drafter, batch = speculating.drafter, speculating._live_batch()
    assert isinstance(drafter, MedusaDrafter)
    with torch.inference_mode():
        said, logprobs = drafter.candidates(batch, 3, 4)
        chain = drafter.propose(batch, [3]).tokens
    assert said.shape == logprobs.shape == (1, 3, 4)
    assert said[..., 0].equal(chain)
    assert set(said.flatten().tolist()) <= set(SAID)
    assert (logprobs.diff() <= 0).all()
    assert (logprobs.exp().sum(-1) <= 1).all()


def drafted_by(target: Path, method: str, head: Path | None) -> list[list[list[int]]]:
    speculating = engine(target, method, head, 2, max_batch_size=3)
    watched = Watched(speculating)
    run(speculating, requests(GREEDY))
    return [draft.tokens.tolist() for _, draft in watched.drafts]


def test_an_eagle_head_is_the_same_in_pytorchs_own_format(terse: Path, heads: dict[str, Path], tmp_path: Path) -> None:
    shutil.copy(heads["eagle"] / "config.json", tmp_path)
    torch.save(load_file(heads["eagle"] / "model.safetensors"), tmp_path / "pytorch_model.bin")
    assert drafted_by(terse, "eagle", tmp_path) == drafted_by(terse, "eagle", heads["eagle"])


def test_an_eagle_head_may_have_embeddings_of_its_own(terse: Path, heads: dict[str, Path], tmp_path: Path) -> None:
    shutil.copy(heads["eagle"] / "config.json", tmp_path)
    theirs = load_file(terse / "model.safetensors")["model.embed_tokens.weight"]
    tensors = {**load_file(heads["eagle"] / "model.safetensors"), "embed_tokens.weight": theirs}
    save_file(tensors, tmp_path / "model.safetensors")
    assert drafted_by(terse, "eagle", tmp_path) == drafted_by(terse, "eagle", heads["eagle"])
    own = engine(terse, "eagle", tmp_path, 2).drafter.weights_bytes
    assert own - engine(terse, "eagle", heads["eagle"], 2).drafter.weights_bytes == theirs.nbytes


def test_medusa_heads_are_the_same_in_every_layout(terse: Path, shape: dict[str, Any], tmp_path: Path) -> None:
    tensors = medusa_tensors(shape, 3)
    ours = save(tmp_path / "vllm", tensors, shape, "medusa")
    (theirs := tmp_path / "original").mkdir()
    torch.save(faster_decoding(tensors), theirs / "medusa_lm_head.pt")
    drafts = drafted_by(terse, "medusa", ours)
    assert drafts == drafted_by(terse, "medusa", theirs)
    # With a token map the rows that are not in it are left out, also where the file still has them.
    whole = save(tmp_path / "whole", {**tensors, "token_map": torch.tensor(SAID)}, shape, "medusa")
    cut = {n: t[list(SAID)] if n.startswith("lm_heads") else t for n, t in tensors.items()}
    few = save(tmp_path / "few", {**cut, "token_map": torch.tensor(SAID)}, shape, "medusa")
    assert drafted_by(terse, "medusa", whole) == drafted_by(terse, "medusa", few) != drafts


def test_medusa_heads_may_speak_through_one_matrix_or_the_targets_own(
    terse: Path, shape: dict[str, Any], tmp_path: Path
) -> None:
    blocks = {n: t for n, t in medusa_tensors(shape, 3).items() if n.startswith("blocks")}
    head = load_file(terse / "model.safetensors")["lm_head.weight"]
    each = {f"lm_heads.{k}.weight": head.clone() for k in range(3)}
    separate = save(tmp_path / "each", {**blocks, **each}, shape, "medusa")
    one = save(tmp_path / "one", {**blocks, "lm_heads.0.weight": head}, shape, "medusa", original_lm_head=True)
    none = save(tmp_path / "none", blocks, shape, "medusa", original_lm_head=True)
    drafts = drafted_by(terse, "medusa", separate)
    assert drafts == drafted_by(terse, "medusa", one) == drafted_by(terse, "medusa", none)
    costs = [engine(terse, "medusa", directory, 2).drafter.weights_bytes for directory in (separate, one, none)]
    assert [costs[0] - costs[1], costs[1] - costs[2]] == [2 * head.nbytes, head.nbytes]


def test_an_mtp_head_is_the_same_among_the_targets_tensors_and_alone(
    terse: Path, shape: dict[str, Any], heads: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(terse, tmp_path / "target")
    save_file(
        {**load_file(terse / "model.safetensors"), **mtp_tensors(shape)}, tmp_path / "target" / "model.safetensors"
    )
    assert drafted_by(tmp_path / "target", "mtp", None) == drafted_by(terse, "mtp", heads["mtp"])


def _altered(head: Path, folder: Path, change: Callable[[dict[str, torch.Tensor], dict[str, Any]], None]) -> Path:
    tensors, config = load_file(head / "model.safetensors"), json.loads((head / "config.json").read_text())
    change(tensors, config)
    (copy := folder / "altered").mkdir()
    save_file(tensors, copy / "model.safetensors")
    (copy / "config.json").write_text(json.dumps(config))
    return copy


@pytest.mark.parametrize(
    ("method", "change", "said"),
    [
        ("eagle", lambda t, c: c.update(vocab_size=300), "made for a vocabulary of 300, and this target's is 258"),
        ("eagle", lambda t, c: c.update(hidden_size=64), "made for a hidden size of 64"),
        ("eagle", lambda t, c: c.update(num_hidden_layers=2), "only of one"),
        ("eagle", lambda t, c: t.update({"fc.weight": torch.zeros(32, 96)}), "--method eagle3"),
        ("eagle", lambda t, c: t.pop("layers.0.mlp.up_proj.weight"), "lacks the tensor layers.0.mlp.up_proj.weight"),
        ("medusa", lambda t, c: t.update({"blocks.0.layers.0.weight": torch.zeros(64, 64)}), "hidden size 64"),
        ("medusa", lambda t, c: t.pop("token_map"), "speak 6 tokens, and should speak 258"),
        ("medusa", lambda t, c: t.pop("blocks.0.layers.0.weight"), "has no Medusa heads"),
        ("mtp", lambda t, c: c.update(speculators_model_type="eagle3"), "is not mtp"),
        ("mtp", lambda t, c: t.pop("mtp_layers.0.input_proj.weight"), "specbench train mtp"),
        ("mtp", lambda t, c: c["transformer_layer_config"].update(vocab_size=9), "made for a vocabulary of 9"),
    ],
)
def test_heads_of_another_target_or_method_are_refused_in_words(
    terse: Path, heads: dict[str, Path], tmp_path: Path, method: str, change: Callable[..., None], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        engine(terse, method, _altered(heads[method], tmp_path, change), 2)


@pytest.mark.parametrize(
    ("method", "said"),
    [("eagle", "needs the directory"), ("medusa", "needs the directory"), ("mtp", "has no MTP head")],
)
def test_a_head_that_is_not_given_is_asked_for(terse: Path, method: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        engine(terse, method, None, 2)


class Code:
    """What a pickle could do to whoever reads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("unpickled",)


def test_a_file_that_holds_more_than_tensors_is_not_unpickled(
    terse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"0.0.linear.weight": Code()}, tmp_path / "medusa_lm_head.pt")
    with pytest.raises(ValueError, match="can't be read as a file of tensors"):
        engine(terse, "medusa", tmp_path, 2)
    assert "unpickled" not in capsys.readouterr().out
