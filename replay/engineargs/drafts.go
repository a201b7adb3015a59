package engineargs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
)

// SGLangDrafts is how SGLang engines decode speculatively; how many drafts are accepted is in
// Args.Speculative.
type SGLangDrafts struct {
	sglang.Drafts        // speculative_num_steps and the like
	Name          string // speculative_algorithm; "": none
	Model         string // speculative_draft_model_path; "": not named
}

// Algorithms returns the names of SGLang's speculative_algorithm.
func Algorithms() []string {
	return []string{"EAGLE", "EAGLE3", "NEXTN", "FROZEN_KV_MTP", "STANDALONE", "NGRAM"}
}

// draftSeats is max_running_requests of SGLang with drafts, where it is not said.
const draftSeats = 48

// Mixes reports whether requests decode in passes that compute prompts, where that is asked for.
func (d *SGLangDrafts) Mixes() bool {
	return !slices.Contains([]string{"FROZEN_KV_MTP", "STANDALONE", "NGRAM"}, d.Name)
}

// ReservedTokens returns how many tokens SGLang takes a prompt to have more, for drafts, when it holds it to the longest sequence.
func (d *SGLangDrafts) ReservedTokens() int {
	if d.Name == "" || d.Algorithm != scheduler.ByHead {
		return 0
	}
	return max(d.TopK*d.Steps, d.Tokens)
}

// readSpeculation reads SGLang's own keys, with its defaults.
func (m *reader) readSpeculation(s *SGLangArgs) {
	d := &s.Drafts
	breadth := 10
	d.Name = m.choice("speculative_algorithm", Algorithms()...)
	m.text("speculative_draft_model_path", &d.Model)
	from := len(m.asked)
	m.readCount("speculative_num_steps", &d.Steps)
	m.readCount("speculative_eagle_topk", &d.TopK)
	m.readCount("speculative_num_draft_tokens", &d.Tokens)
	m.readCount("speculative_ngram_max_bfs_breadth", &breadth)
	if d.Name == "" {
		for _, key := range m.asked[from:] {
			if text, given := m.values[key]; given {
				m.fail(key, excerpt.CutLine(text), "speculative_algorithm with it")
			}
		}
		return
	}
	if _, given := m.values["max_running_requests"]; !given {
		s.MaxRunning = draftSeats
	}
	if m.err != nil { // what was read may be 0
		return
	}
	switch d.Name {
	case "STANDALONE":
		d.Algorithm = scheduler.ByDraftModel
		m.completeChain(d)
	case "NGRAM":
		d.Algorithm, d.TopK = scheduler.ByLookup, breadth
		d.Tokens = cmp.Or(d.Tokens, 12)
		d.Steps = cmp.Or(d.Steps, max(1, d.Tokens/d.TopK))
	default:
		d.Algorithm = scheduler.ByHead
		m.completeChain(d)
	}
	if d.Tokens == 0 {
		m.fail("speculative_num_draft_tokens", "missing", "speculative_num_draft_tokens beside speculative_eagle_topk")
	} else if d.Tokens == 1 {
		m.fail("speculative_num_draft_tokens", "1", "at least 2, as the token before the drafts is one of them")
	}
}

// completeChain puts in what is not said of drafts in a row.
func (m *reader) completeChain(d *SGLangDrafts) {
	if d.Steps == 0 {
		for _, key := range []string{"speculative_eagle_topk", "speculative_num_draft_tokens"} {
			if text, given := m.values[key]; given {
				m.fail(key, excerpt.CutLine(text), "speculative_num_steps with it")
			}
		}
		d.Steps, d.TopK = 3, 1
	}
	if d.TopK == 0 {
		m.fail("speculative_eagle_topk", "missing", "speculative_eagle_topk beside speculative_num_steps")
	}
	if d.TopK == 1 {
		d.Tokens = d.Steps + 1 // whatever is said
	}
}

// readCount reads a number of drafts.
func (m *reader) readCount(key string, to *int) {
	if m.count(key, to); *to > maxDrafts {
		m.fail(key, strconv.Itoa(*to), fmt.Sprintf("at most %d", maxDrafts))
	}
}

// readDrafts reads what speculative_config has for SGLang engines: how many drafts are accepted,
// and what they take.
func (r *reader) readDrafts(a *Args) {
	d := &a.SGLang.Drafts
	m := r.openObject("speculative_config")
	switch {
	case r.err != nil || m == nil && d.Name == "":
		return
	case d.Name == "":
		r.fail("speculative_config", excerpt.CutLine(r.values["speculative_config"]), "sglang.speculative_algorithm with it, on an engine of type sglang")
		return
	case m == nil:
		m = &reader{values: object{}, prefix: "speculative_config.", compat: r.compat, strict: true}
	}
	s := &Speculative{Name: d.Name, Model: d.Model}
	s.Method, s.Tokens = d.Algorithm, d.Depth()
	m.readLaw(s)
	m.refuseOthers()
	if r.err = m.err; r.err == nil {
		a.Speculative = s
	}
}
