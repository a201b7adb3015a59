package sglang

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/schema"
)

// DraftSettings are the arguments of speculative decoding.
type DraftSettings struct {
	Drafts        // speculative_num_steps and similar arguments
	Name   string // speculative_algorithm; "": none
	Model  string // speculative_draft_model_path; "": not given
}

// listAlgorithms returns the allowed values of speculative_algorithm.
func listAlgorithms() []string {
	return []string{"EAGLE", "EAGLE3", "NEXTN", "FROZEN_KV_MTP", "STANDALONE", "NGRAM"}
}

// draftSeats is the default of max_running_requests with drafts.
const draftSeats = 48

// maxDrafts is the maximum number of drafts of a request in a pass.
const maxDrafts = 64

// Mixes reports whether the drafter supports enable_mixed_chunk, with which requests decode in passes that compute
// prompts.
func (s *DraftSettings) Mixes() bool {
	return !slices.Contains([]string{"FROZEN_KV_MTP", "STANDALONE", "NGRAM"}, s.Name)
}

// ReservedTokens returns the number of tokens for drafts that are added to a prompt when it is compared with the
// longest sequence.
func (s *DraftSettings) ReservedTokens() int {
	if s.Name == "" || s.Algorithm != scheduler.ByHead {
		return 0
	}
	return max(s.TopK*s.Steps, s.Tokens)
}

// declare declares the arguments of drafts; seats is max_running_requests.
func (s *DraftSettings) declare(d *schema.Decl, seats *int) {
	breadth := 10
	s.Name = d.Name(schema.Row{
		Key: "speculative_algorithm", Default: "no drafts", Help: "algorithm of speculative decoding, by `name`: EAGLE, EAGLE3, NEXTN, FROZEN_KV_MTP, STANDALONE or NGRAM", After: "enable-mixed-chunk", Names: listAlgorithms(),
		Doc: schema.Doc{Default: "none", Text: "algorithm of speculative decoding: EAGLE (also NEXTN), EAGLE3, FROZEN_KV_MTP, STANDALONE (a draft model) or NGRAM"},
	})
	d.String(&s.Model, schema.Row{
		Key: "speculative_draft_model_path",
		Doc: schema.Doc{Text: "path or name of the draft model"},
	})
	parameters := d.Mark()
	d.CountTo(&s.Steps, maxDrafts, schema.Row{
		Key: "speculative_num_steps", Default: "3", Help: "speculative decoding: number of `drafts` in a chain",
		Doc: schema.Doc{Default: "3; NGRAM: draft tokens divided by breadth", Text: "number of drafts in a chain, 1 to 64"},
	})
	d.CountTo(&s.TopK, maxDrafts, schema.Row{
		Key: "speculative_eagle_topk", Default: "1", Help: "speculative decoding: number of `drafts` that each step continues",
		Doc: schema.Doc{Text: "number of drafts that each step continues; required with `sglang.speculative_num_steps`. NGRAM uses `sglang.speculative_ngram_max_bfs_breadth` instead"},
	})
	d.CountTo(&s.Tokens, maxDrafts, schema.Row{
		Key: "speculative_num_draft_tokens", Default: "one more than steps", Help: "speculative decoding: number `n` of tokens per request that a pass verifies",
		Doc: schema.Doc{Unit: "tokens", Default: "steps + 1; NGRAM: 12", Text: "number of tokens per request that a pass verifies: the drafts and the token before them; always steps + 1 if `sglang.speculative_eagle_topk` is 1"},
	})
	d.CountTo(&breadth, maxDrafts, schema.Row{
		Key: "speculative_ngram_max_bfs_breadth", Value: 10,
		Doc: schema.Doc{Unit: "drafts", Text: "algorithm NGRAM: number of drafts that each step continues"},
	})
	if s.Name == "" {
		d.RefuseSince(parameters, "speculative_algorithm")
		return
	}
	if !d.Has("max_running_requests") {
		*seats = draftSeats
	}
	if !d.OK() { // the values that were read may be 0
		return
	}
	switch s.Name {
	case "STANDALONE":
		s.Algorithm = scheduler.ByDraftModel
		s.completeChain(d)
	case "NGRAM":
		s.Algorithm, s.TopK = scheduler.ByLookup, breadth
		s.Tokens = cmp.Or(s.Tokens, 12)
		s.Steps = cmp.Or(s.Steps, max(1, s.Tokens/s.TopK))
	default:
		s.Algorithm = scheduler.ByHead
		s.completeChain(d)
	}
	if s.Tokens == 0 {
		d.Fail("speculative_num_draft_tokens", "missing", "given with speculative_eagle_topk")
	} else if s.Tokens == 1 {
		d.Fail("speculative_num_draft_tokens", "1", "at least 2, as the token before the drafts is one of them")
	}
}

// completeChain sets the missing arguments of a chain of drafts.
func (s *DraftSettings) completeChain(d *schema.Decl) {
	if s.Steps == 0 {
		for _, key := range []string{"speculative_eagle_topk", "speculative_num_draft_tokens"} {
			if d.Has(key) {
				d.Require(key, "speculative_num_steps")
			}
		}
		s.Steps, s.TopK = 3, 1
	}
	if s.TopK == 0 {
		d.Fail("speculative_eagle_topk", "missing", "given with speculative_num_steps")
	}
	if s.TopK == 1 {
		s.Tokens = s.Steps + 1 // overrides the given value
	}
}
