"""Speculative decoding: SGLang's own scheduling of drafts, with the number of accepted drafts from replay's draws.

SGLang reserves, allocates, commits and releases memory. The number of accepted drafts is drawn as in replay. The duration of a
pass is the time of its requests at their true lengths plus the time of its drafts. The settings of SGLang are
speculative_algorithm, speculative_num_steps, speculative_eagle_topk and speculative_num_draft_tokens. The object
speculative_config has settings of tools/vllmoracle/drafts.py: acceptance_rate or synthetic_acceptance_rates, acceptance_seed,
draft_ms and draft_share.
"""
from __future__ import annotations

import importlib.util
import os

import torch

from sglang.srt.mem_cache import allocation

_path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vllmoracle", "drafts.py")
_spec = importlib.util.spec_from_file_location("acceptance", _path)
acceptance = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(acceptance)


def assign_places(rows, table, start, end, places, _):
    """Write the KV-cache indices of allocated tokens into the table, as SGLang's GPU kernel does."""
    at = 0
    for row, x, y in zip(rows.tolist(), start.tolist(), end.tolist()):
        table[row, x:y] = places[at:at + y - x].to(table.dtype)
        at += y - x


class Drafts:
    """The settings of speculative decoding of a case; false without speculative decoding."""

    def __init__(self, algorithm, steps, topk, tokens, config):
        self.algorithm, self.steps, self.topk, self.tokens = algorithm, steps, topk, tokens
        if algorithm:
            self.law = acceptance.Drafts({"method": algorithm, "num_speculative_tokens": self.depth, **config})
        self.flying = {}  # by request: tokens of passes with a result that SGLang has not processed

    def __bool__(self):
        return bool(self.algorithm)

    @property
    def depth(self):
        """Return the maximum number of drafts of a request that a pass can accept."""
        return min(self.tokens - 1, self.tokens - 1 if self.algorithm == "NGRAM" else self.steps)

    def room(self, page):
        """Return the maximum number of KV-cache tokens that a request needs in addition to its own tokens."""
        if not self:
            return 0
        return 2 * max(self.topk * -(-(2 * page + self.steps) // page) * page, self.steps * self.topk, self.tokens) + page

    def override(self, context):
        """Configure speculative decoding in SGLang, as its server does."""
        if self:
            allocation.assign_req_to_token_pool_func = assign_places
            context.override(
                "oracle", speculative_algorithm=self.algorithm, speculative_num_steps=self.steps,
                speculative_eagle_topk=self.topk, speculative_num_draft_tokens=self.tokens)

    def sampled(self, req):
        """Return the number of answer tokens so far, with tokens that SGLang has not processed yet."""
        return len(req.output_ids) + self.flying.get(req.rid, 0)

    def lengths(self, reqs, drafts=0):
        """Return the number of tokens of each request: prompt, answer so far, and drafts."""
        return [len(r.origin_input_ids) + self.sampled(r) + drafts for r in reqs]

    def accept(self, batch, rids, result):
        """Fill in the result of a decode pass: a row of tokens for each request, and the number of valid tokens."""
        lens = [1 + self.law.accepted(rids[r.rid].rid, self.sampled(r), self.depth) for r in batch.reqs]
        self._note(result, zip(batch.reqs, lens))
        result.next_token_ids = result.next_token_ids.repeat_interleave(self.tokens)
        result.accept_lens = torch.tensor(lens, dtype=torch.int32)
        result.speculative_num_draft_tokens = self.tokens

    def prefill(self, batch, result):
        """Record one new token for each request of a prefill pass, except for a request with more chunks."""
        self._note(result, [(r, 1) for r in batch.reqs if r is not batch.chunked_req])

    def _note(self, result, made):
        result.made = dict((r.rid, n) for r, n in made)
        for rid, n in result.made.items():
            self.flying[rid] = self.flying.get(rid, 0) + n

    def settle(self, result):
        """Record that SGLang has processed the result of a pass."""
        for rid, n in result.made.items():
            self.flying[rid] -= n

    def pass_ms(self, ms, decode):
        """Return the duration of a pass with its drafts (ms).

        NGRAM drafts once, in decode passes only. Other algorithms draft speculative_num_steps times in a decode pass and once
        in a prefill pass.
        """
        lookup = self.algorithm == "NGRAM"
        return self.law.pass_ms(ms, (1 if lookup else self.steps) if decode else int(not lookup))
