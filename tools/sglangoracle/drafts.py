"""Speculative decoding: SGLang's own scheduling of it, with the drafts that replay accepts.

SGLang reserves, allocates, commits and releases; made up is how many drafts a target model accepts, drawn as replay draws
it, and what a pass takes: that of its requests at their true lengths, and of the drafts. Settings beside SGLang's own
(speculative_algorithm, speculative_num_steps, speculative_eagle_topk, speculative_num_draft_tokens) are those of
tools/vllmoracle/drafts.py in an object speculative_config: acceptance_rate or synthetic_acceptance_rates, acceptance_seed,
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
    """What a kernel does with the places of tokens that were allocated."""
    at = 0
    for row, x, y in zip(rows.tolist(), start.tolist(), end.tolist()):
        table[row, x:y] = places[at:at + y - x].to(table.dtype)
        at += y - x


class Drafts:
    """What a case says of drafts; false where it says nothing."""

    def __init__(self, algorithm, steps, topk, tokens, config):
        self.algorithm, self.steps, self.topk, self.tokens = algorithm, steps, topk, tokens
        if algorithm:
            self.law = acceptance.Drafts({"method": algorithm, "num_speculative_tokens": self.depth, **config})
        self.flying = {}  # tokens of passes whose result SGLang has not seen, by request

    def __bool__(self):
        return bool(self.algorithm)

    @property
    def depth(self):
        """Drafts that a pass may accept of a request."""
        return min(self.tokens - 1, self.tokens - 1 if self.algorithm == "NGRAM" else self.steps)

    def room(self, page):
        """Tokens that a request may hold beyond its own."""
        if not self:
            return 0
        return 2 * max(self.topk * -(-(2 * page + self.steps) // page) * page, self.steps * self.topk, self.tokens) + page

    def override(self, context):
        """Tells SGLang, as its server would."""
        if self:
            allocation.assign_req_to_token_pool_func = assign_places
            context.override(
                "oracle", speculative_algorithm=self.algorithm, speculative_num_steps=self.steps,
                speculative_eagle_topk=self.topk, speculative_num_draft_tokens=self.tokens)

    def sampled(self, req):
        """Tokens of the answer that passes have made so far, with those SGLang does not know yet."""
        return len(req.output_ids) + self.flying.get(req.rid, 0)

    def lengths(self, reqs, drafts=0):
        """Of each request, with the places of the token that is computed and of drafts."""
        return [len(r.origin_input_ids) + self.sampled(r) + drafts for r in reqs]

    def accept(self, batch, rids, result):
        """Makes up what a decode pass gives: rows of tokens, of which the first are valid."""
        lens = [1 + self.law.accepted(rids[r.rid].rid, self.sampled(r), self.depth) for r in batch.reqs]
        self._note(result, zip(batch.reqs, lens))
        result.next_token_ids = result.next_token_ids.repeat_interleave(self.tokens)
        result.accept_lens = torch.tensor(lens, dtype=torch.int32)
        result.speculative_num_draft_tokens = self.tokens

    def prefill(self, batch, result):
        """A prefill gives each request a token, but the one whose prompt goes on."""
        self._note(result, [(r, 1) for r in batch.reqs if r is not batch.chunked_req])

    def _note(self, result, made):
        result.made = dict((r.rid, n) for r, n in made)
        for rid, n in result.made.items():
            self.flying[rid] = self.flying.get(rid, 0) + n

    def settle(self, result):
        """SGLang has seen the result."""
        for rid, n in result.made.items():
            self.flying[rid] -= n

    def pass_ms(self, ms, decode):
        """What a pass takes with its drafts: those of all steps, of a prefill one; a lookup is for decode passes."""
        lookup = self.algorithm == "NGRAM"
        return self.law.pass_ms(ms, (1 if lookup else self.steps) if decode else int(not lookup))
