package calibrate

import (
	"encoding/json"
	"fmt"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Prompts are the prompts of a run, by what they share.
type Prompts struct {
	BlockTokens int // tokens per id
	ids         [][]uint64
	lengths     []int
	path        string
}

// promptTokens is the number of tokens an id of a file of prompts stands for,
// unless ReadPrompts is given another.
const promptTokens = 16

// ReadPrompts reads a file with a line per request, in the order of
// requests.jsonl: input_length and hash_ids.
func ReadPrompts(path string, blockTokens int) (*Prompts, error) {
	if blockTokens == 0 {
		blockTokens = promptTokens
	}
	p := &Prompts{BlockTokens: blockTokens, path: path}
	return p, readLines(path, func(_ int, text []byte) error {
		var x struct {
			Input int      `json:"input_length"`
			IDs   []uint64 `json:"hash_ids"`
		}
		if err := json.Unmarshal(text, &x); err != nil {
			return err
		}
		if len(x.IDs)*blockTokens < x.Input || x.Input < 1 {
			return fmt.Errorf("%d hash_ids of %d tokens for input_length %d, want enough of them", len(x.IDs), blockTokens, x.Input)
		}
		p.ids, p.lengths = append(p.ids, x.IDs), append(p.lengths, x.Input)
		return nil
	})
}

// simRequests returns the run's requests as the scheduler sees them, by arrival.
// Without prompts none begins like another.
func (m *Measured) simRequests(p *Prompts) (all []sim.Request, t *prompt.Tree, err error) {
	size := m.Settings.BlockTokens
	tokens := size
	if p != nil {
		tokens = p.BlockTokens
		if len(p.ids) != len(m.Requests) {
			return nil, nil, fmt.Errorf("%s: %d prompts, want one for each of the %d requests", p.path, len(p.ids), len(m.Requests))
		}
	}
	t = prompt.NewTree(tokens, size, prompt.Options{})
	all = make([]sim.Request, len(m.Requests))
	for i := range m.Requests {
		r := &m.Requests[i]
		all[i] = sim.Request{ID: sim.RequestID(i), InputTokens: r.Input, OutputTokens: r.Output}
		if p == nil {
			all[i].Prompt = prompt.Prompt{Blocks: int32(r.Input / size), Seed: int32(i + 1)}
			continue
		}
		// Lines are in the order of the file, requests in that of arrival.
		k := r.Place
		if p.lengths[k] != r.Input {
			return nil, nil, fmt.Errorf("%s:%d: input_length is %d, want %d as measured", p.path, k+1, p.lengths[k], r.Input)
		}
		all[i].Prompt = t.Add(p.ids[k], r.Input)
	}
	return all, t, nil
}
