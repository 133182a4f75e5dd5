"""The engine: continuous batching over fixed rows, one speculative step at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from specbench.decoder.batch import Batch
from specbench.decoder.cache import Branches, CacheView, KVCache
from specbench.decoder.counters import Counters
from specbench.decoder.drafters.base import Draft, Drafter, Preparing
from specbench.decoder.logprobs import LogprobsMode, logprobs
from specbench.decoder.models.llama import Forward, Llama
from specbench.decoder.models.prefill import prefill
from specbench.decoder.policies.base import GammaPolicy, Step
from specbench.decoder.request import Request, RequestFailed, SequenceState, StepOutput
from specbench.decoder.synthetic import SyntheticAcceptance
from specbench.decoder.tree_shape import TreeShape, check_tree
from specbench.decoder.verifier import DRAFT_STREAMS, Verification, verifier_for


class Engine:
    """Decodes requests with a target and a drafter. Not thread-safe: one thread adds, steps and aborts.

    gamma:          tokens drafted per step at most
    max_batch_size: rows, i.e. requests decoded together; more wait
    max_model_len:  prompt and output together, in tokens
    verification:   `rejection` (Leviathan et al., 2023); `block` (Sun et al., 2024), which keeps more of sampled ones;
                    `coupled`: the same seed then gives the same tokens with every drafter and gamma; or `typical`
                    (Cai et al., 2024), whose outputs are not the target's. Greedy requests are the same under all.
    logprobs_mode:  whether log-probabilities are reported before (`raw`) or after temperature, top-k and top-p
    acceptance:     made up in the place of the verdict, so that outputs are not the target's; None for exact ones
    policy:         sets each request's gamma at every step, up to `gamma`; None leaves it at that
    tree:           how drafts branch, gamma being their depth; None for chains
    cache:          the target's, where the drafter was given it too; None for a new one
    """

    def __init__(
        self,
        target: Llama,
        drafter: Drafter,
        gamma: int,
        max_batch_size: int,
        max_model_len: int,
        verification: Verification = "rejection",
        eos_token_ids: Sequence[int] = (),
        logprobs_mode: LogprobsMode = "raw",
        acceptance: SyntheticAcceptance | None = None,
        policy: GammaPolicy | None = None,
        tree: TreeShape | None = None,
        cache: KVCache | None = None,
    ) -> None:
        check_tree(tree, gamma, verification, acceptance is not None)
        self.target, self.drafter, self.gamma, self.policy = target, drafter, gamma, policy
        self._preparing = drafter if isinstance(drafter, Preparing) else None
        self.max_batch_size, self.max_model_len = max_batch_size, max_model_len
        self.verification: Verification = verification
        self.logprobs_mode: LogprobsMode = logprobs_mode
        self.acceptance = acceptance
        self._verifier = verifier_for(verification, acceptance, on_kernels=target.on_kernels)
        slots = cache_slots(max_model_len, gamma, tree)
        self.cache = cache or KVCache(target.config, max_batch_size, slots, target.dtype, target.device)
        self.counters = Counters(accepted_at=[0] * gamma)
        self._eos_token_ids = frozenset(eos_token_ids)
        self._draft_stream = DRAFT_STREAMS[verification]
        self._waiting: dict[str, Request] = {}
        self._rows: list[SequenceState | None] = [None] * max_batch_size
        self._batch: Batch | None = None
        self._batch_device = target.device

    # --- requests in and out ---

    def add(self, request: Request) -> None:
        """Queue a request. Raises ValueError for a prompt that `check_prompt` refuses, and for an id that is here."""
        self.check_prompt(request.prompt_ids)
        if request.id in self._waiting or self._row_of(request.id) is not None:
            raise ValueError(f"request {request.id!r} is already here.")
        if not self.has_work:
            self.counters.rest()
        self._waiting[request.id] = request

    def check_prompt(self, prompt_ids: Sequence[int]) -> None:
        """Raise ValueError for a prompt that is empty, too long or of unknown tokens. Safe to call from any thread."""
        length, vocab = len(prompt_ids), self.target.config.vocab_size
        if length == 0:
            raise ValueError("the prompt is empty; it needs at least one token.")
        if length >= self.max_model_len:
            raise ValueError(
                f"the prompt has {length} tokens, and prompt and output together may have {self.max_model_len} "
                "(max_model_len). Shorten the prompt or raise the limit."
            )
        if not all(0 <= token < vocab for token in prompt_ids):
            raise ValueError(f"the prompt has token ids outside the vocabulary (0..{vocab - 1}).")

    def abort(self, request_id: str) -> None:
        """Drop a request, waiting or running, and free its row. Nothing happens if it is not here (any more)."""
        self._waiting.pop(request_id, None)
        if (row := self._row_of(request_id)) is not None:
            self._release(row)

    def _row_of(self, request_id: str) -> int | None:
        rows = (row for row, sequence in enumerate(self._rows) if sequence and sequence.request.id == request_id)
        return next(rows, None)

    @property
    def running(self) -> int:
        return sum(sequence is not None for sequence in self._rows)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    @property
    def kv_tokens(self) -> int:
        """Tokens that the live rows hold in the target's cache."""
        return sum(len(sequence.tokens) - 1 for sequence in self._rows if sequence)

    @property
    def kv_capacity(self) -> int:
        """Tokens that the target's cache has place for."""
        return self.max_batch_size * self.max_model_len

    # --- the step ---

    @torch.inference_mode()
    def step(self) -> list[StepOutput]:
        """Admit the oldest waiting request if a row is free, else take every live row one step further.

        Raises RequestFailed where a request cannot be admitted; its row is then free again. Any other exception leaves
        the engine broken.
        """
        if self._waiting and None in self._rows:
            request, row = self._waiting.pop(next(iter(self._waiting))), self._rows.index(None)
            try:
                return [self._admit(request, row)]
            except Exception as error:
                self._release(row)
                if self.target.device.type == "cuda":
                    torch.cuda.synchronize(self.target.device)  # raises where the device itself has failed, for good
                raise RequestFailed(request.id, error) from error
        return self._advance() if self.running else []

    def _admit(self, request: Request, row: int) -> StepOutput:
        prompt = list(request.prompt_ids)
        limit = min(len(prompt) + request.params.max_tokens, self.max_model_len)
        sequence = SequenceState(request, self._eos_token_ids, limit, prompt)
        with self.counters.timed("prefill"):
            forward = prefill(self.target, self.cache, row, prompt, logits=1, taps=self.drafter.needs_hidden)
            self.drafter.prefill(row, sequence, forward.hidden)
        self._rows[row], self._batch = sequence, None
        with self.counters.timed("accept"):
            alone = Batch.of([sequence], self._draft_stream, self.target.device)
            verified = self._verifier.verify(alone, forward.logits, Draft.none(alone))
            first = verified.next_token.tolist()
        return self._emit(row, first, forward.logits[0], first=True)

    def _advance(self) -> list[StepOutput]:
        begun = time.perf_counter()
        batch = self._live_batch()
        gammas = self._gammas(batch)
        limits = _limits(batch, gammas)
        with self.counters.timed("draft"):
            draft = self.drafter.propose(batch, limits) if any(limits) else Draft.none(batch)
        if self._preparing is not None:
            with self.counters.timed("prepare"):
                self._preparing.prepare(batch, draft)
            self.counters.count_ready(draft.ready)
        with self.counters.timed("verify"):
            entered, view = self._verification_input(batch, draft)
            forward = self.target.forward(entered, view, logits=entered.shape[1], taps=self.drafter.needs_hidden)
            self.counters.count_pass(self.target.read_bytes + sum(batch.lengths()) * self.cache.bytes_per_token)
        with self.counters.timed("accept"):
            verified = self._verifier.verify(batch, forward.logits, draft)
            lengths = draft.lengths()
            if verified.path is not None:
                draft, forward = self._keep_branch(batch, draft, forward, verified.path)
            results = torch.stack([lengths, verified.accepted, verified.next_token], 1)
            # One read for the whole batch: every read makes the host wait for a GPU.
            read = torch.cat([results, draft.tokens], 1).tolist()
            drafted_counts, kept_counts = [counts[0] for counts in read], [counts[1] for counts in read]
            self.drafter.observe(batch, kept_counts, forward.hidden)
        self._tell_policy(batch, limits, drafted_counts, kept_counts, time.perf_counter() - begun)
        outputs = []
        for row, (drafted, kept, next_token, *tokens) in enumerate(read):
            if batch.sequences[row] is not None:
                emitted, gamma = [*tokens[:kept], next_token], None if self.policy is None else gammas[row]
                outputs.append(self._emit(row, emitted, forward.logits[row], drafted, kept, gamma))
        return outputs

    def _live_batch(self) -> Batch:
        """The rows up to the highest live one; made anew when a request comes or goes."""
        if self._batch is None:
            highest = max(row for row, sequence in enumerate(self._rows) if sequence is not None)
            self._batch = Batch.of(self._rows[: highest + 1], self._draft_stream, self._batch_device)
        return self._batch

    def _gammas(self, batch: Batch) -> list[int]:
        """What each row may draft; of a dead row it is ignored."""
        if self.policy is None:
            return [self.gamma] * batch.size
        chosen = iter(self.policy.choose([s.request.id for s in batch.sequences if s is not None]))
        return [0 if s is None else next(chosen) for s in batch.sequences]

    def _tell_policy(
        self, batch: Batch, limits: Sequence[int], drafted: Sequence[int], accepted: Sequence[int], seconds: float
    ) -> None:
        if self.policy is None:
            return
        live = [row for row, sequence in enumerate(batch.sequences) if sequence is not None]
        self.policy.observe(
            Step(
                sessions=[s.request.id for s in batch.sequences if s is not None],
                asked=[limits[row] for row in live],
                drafted=[drafted[row] for row in live],
                accepted=[accepted[row] for row in live],
                seconds=seconds,
            )
        )

    def _verification_input(self, batch: Batch, draft: Draft) -> tuple[Tensor, CacheView]:
        """The newest token and the draft of each row, [B, 1 + g], and the place in the cache of these."""
        newest, at = batch.newest(1)
        slots = at + torch.arange(1 + draft.width, device=batch.device)
        positions, branches = slots, None
        if draft.tree is not None:
            positions, branches = at + draft.tree.depths, Branches(slots, draft.tree.ancestors)
        used = max(batch.lengths()) + draft.width
        view = self.cache.enter(slice(0, batch.size), slots, positions, used, branches)
        return torch.cat([newest, draft.tokens.clamp_min(0)], 1), view

    def _keep_branch(self, batch: Batch, draft: Draft, forward: Forward, path: Tensor) -> tuple[Draft, Forward]:
        """Of a draft that branched the branch that was kept, as if it had been a chain: what comes after this sees no
        tree any more. path [B, depth], columns of the tree"""
        root = batch.on_device(batch.lengths()) - 1
        self.cache.keep_branch(slice(0, batch.size), root, path, draft.width)
        columns, row = pad(path, (1, 0)), torch.arange(batch.size, device=path.device)[:, None]
        hidden = None if forward.hidden is None else forward.hidden[row, columns]
        return Draft(draft.tokens.gather(1, path - 1)), Forward(forward.logits[row, columns], hidden)

    def _emit(
        self,
        row: int,
        tokens: list[int],
        logits: Tensor,
        drafted: int = 0,
        accepted: int = 0,
        gamma: int | None = None,
        first: bool = False,
    ) -> StepOutput:
        """Give a row's request its tokens, count them, and free the row if they ended it. logits [w, V]"""
        sequence = self._rows[row]
        assert sequence is not None
        count, reason = sequence.extend(tokens)
        accepted = min(accepted, count)
        self.counters.generated += count
        if not first:
            self.counters.count_step(drafted, accepted)
        if reason is not None:
            self._release(row)
        params = sequence.request.params
        wanted, warped = params.logprobs, params if self.logprobs_mode == "processed" else None
        return StepOutput(
            request_id=sequence.request.id,
            token_ids=tuple(tokens[:count]),
            logprobs=None if wanted is None else logprobs(logits, tokens[:count], wanted, warped),
            finish_reason=reason,
            drafted=drafted,
            accepted=accepted,
            gamma=gamma,
            first=first,
        )

    def _release(self, row: int) -> None:
        sequence = self._rows[row]
        if self.policy is not None and sequence is not None:
            self.policy.forget(sequence.request.id)
        self._rows[row], self._batch = None, None
        self.drafter.release(row)


def _limits(batch: Batch, gammas: Sequence[int]) -> list[int]:
    """What each row drafts at most: a step emits one token more than it accepts, hence the 1."""
    return [0 if s is None else min(gamma, s.room - 1) for s, gamma in zip(batch.sequences, gammas, strict=True)]


def cache_slots(max_model_len: int, gamma: int, tree: TreeShape | None = None) -> int:
    """Slots per row of a cache: a draft's entries may stand beyond the longest text that will be kept."""
    return max_model_len + (gamma if tree is None else tree.width(gamma)) + 1
