"""A smaller model drafts token by token (Leviathan et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.cache import KVCache
from specbench.decoder.drafters.base import Draft, DrafterContext
from specbench.decoder.drafters.chain import Chain, Drawn
from specbench.decoder.drafters.universal import UniversalDraftModel
from specbench.decoder.models.llama import Llama
from specbench.decoder.models.prefill import CHUNK, prefill
from specbench.decoder.request import SequenceState


class DraftModel:
    """Drafts chains with a model that numbers its tokens as the target does.

    A model directory may hold a head for a part of the vocabulary (`d2t`, as EAGLE-3 heads have): a small model reads
    little besides its head.

    The cache follows the target's rules. It lags by one token after a full acceptance (the last drafted token never
    went through it), by more where steps had no draft, so each draft begins with a pass over all that is unseen.

    vocab_size: the target's; None where it is the model's
    """

    name = "draft_model"
    needs_hidden: tuple[int, ...] = ()

    def __init__(
        self, model: Llama, rows: int, slots: int, stop_below: float | None = None, vocab_size: int | None = None
    ) -> None:
        self.model = model
        self.cache = KVCache(model.config, rows, slots, model.dtype, model.device)
        self._chain = Chain(self.cache, vocab_size or model.config.vocab_size, stop_below)
        self._last = model.config.vocab_size - 1  # a target with more embeddings may say what is no token
        self._seen = [0] * rows
        self._drafted_through = 0
        self.kv_bytes_per_token = self.cache.bytes_per_token
        self.weights_bytes = model.weights_bytes

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        prefill(self.model, self.cache, row, [min(t, self._last) for t in sequence.tokens], logits=0)
        self._seen[row] = len(sequence.tokens)

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        tokens, positions = self.catch_up(batch)
        draft = self._chain.draft(self.model, batch, tokens, positions, limits)
        self.saw(batch, draft.width - 1)
        return draft

    def drawn(self, batch: Batch, tokens: Tensor, positions: Tensor, longest: int) -> Iterator[Drawn]:
        """As `Chain.drawn`; what it enters is not remembered."""
        return self._chain.drawn(self.model, batch, tokens.clamp_max(self._last), positions, longest)

    def catch_up(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Run the model over what each row has missed but for the last chunk, which the first pass of a draft enters:
        its tokens and their positions, both [B, w].
        """
        lengths = batch.lengths()
        # The newest token is always among them: it is entered again where it was seen, which changes nothing.
        unseen = max(1, *(n - self._seen[row] for row, n in enumerate(lengths) if batch.sequences[row] is not None))
        tokens, positions = batch.newest(unseen)
        tokens.clamp_(max=self._last)
        *earlier, (tokens, positions) = zip(*(torch.split(x, CHUNK, 1) for x in (tokens, positions)), strict=True)
        for missed, at in earlier:  # after a long time without a draft
            self.model.forward(missed, self.cache.enter(slice(0, batch.size), at, at, used=max(lengths)), logits=0)
        return tokens, positions

    def saw(self, batch: Batch, drafted: int) -> None:
        """The cache now holds all of the rows' tokens, and the first `drafted` of the draft."""
        for row, sequence in enumerate(batch.sequences):
            if sequence is not None:
                self._seen[row] = len(sequence.tokens)
        self._drafted_through = drafted

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        for row, kept in enumerate(accepted):
            self._seen[row] += min(kept, self._drafted_through)

    def rewind(self, row: int, seen: int) -> None:
        """Of what the cache holds of a row, the first `seen` tokens are still the text's."""
        self._seen[row] = seen

    def release(self, row: int) -> None:
        self._seen[row] = 0


def load(context: DrafterContext) -> DraftModel | UniversalDraftModel:
    """A draft model of the target's own vocabulary, or one of another by way of text.

    Raises ValueError where there is no directory, or no way from one vocabulary to the other.
    """
    model = _model("draft_model", context)
    tokenizers = _tokenizers(context)
    if _is_same(tokenizers, model, context):
        return DraftModel(model, context.rows, context.slots, context.stop_below, context.target.config.vocab_size)
    own, targets = tokenizers
    if own is None or targets is None:
        raise ValueError(
            f"the draft model's vocabulary has {model.config.vocab_size} tokens ({context.directory}) and the target's "
            f"{context.target.config.vocab_size}, and without a tokenizer.json of both there is no way from one to the "
            "other. Choose a draft model of the target's own family, or add the files."
        )
    # A text may have twice as many tokens in the other vocabulary; with more it is no longer drafted for.
    drafter = DraftModel(model, context.rows, 2 * context.slots, context.stop_below)
    return UniversalDraftModel(drafter, own, targets, context.target.config.vocab_size)


def load_own_vocabulary(method: str, context: DrafterContext) -> Llama:
    """A draft model that numbers its tokens as the target does. Raises ValueError for any other."""
    model = _model(method, context)
    if not _is_same(_tokenizers(context), model, context):
        raise ValueError(
            f"the draft model ({context.directory}) and the target ({context.target_directory}) number their tokens "
            f"differently, and method {method} needs one vocabulary. Choose a draft model of the target's own family."
        )
    return model


def _model(method: str, context: DrafterContext) -> Llama:
    if context.directory is None:
        raise ValueError(f"method {method} needs the directory of a draft model.")
    target = context.target
    model = Llama.from_directory(context.directory, target.dtype, target.device, on_kernels=target.on_kernels)
    # The models of a family may have embeddings for a few tokens more or fewer, which fill up a round number.
    if model.token_ids is None and model.config.vocab_size < target.config.vocab_size:
        model.token_ids = torch.arange(model.config.vocab_size, device=model.device)
    return model


def _tokenizers(context: DrafterContext) -> tuple[Tokenizer | None, Tokenizer | None]:
    """The draft model's and the target's; None for a model without a fast tokenizer's file."""
    return _tokenizer(Path(context.directory or "")), _tokenizer(context.target_directory)


def _tokenizer(directory: Path) -> Tokenizer | None:
    path = directory / "tokenizer.json"
    if not path.exists():
        return None
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no other
        raise ValueError(f"{path} is no tokenizer's file ({error}). Copy the model's own there.") from None
    # A file may hold what somebody once encoded with.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _is_same(tokenizers: tuple[Tokenizer | None, Tokenizer | None], model: Llama, context: DrafterContext) -> bool:
    own, targets = tokenizers
    if own is None or targets is None:
        return model.config.vocab_size == context.target.config.vocab_size
    # Names of added tokens (templates, reserved places) differ between models that otherwise say the same.
    return bool(own.get_vocab(with_added_tokens=False) == targets.get_vocab(with_added_tokens=False))
