package calibrate

import (
	"fmt"

	"github.com/replay-llm/replay/internal/json"
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
	all = make([]sim.Request, len(m.Requests))
	for i := range m.Requests {
		r := &m.Requests[i]
		all[i] = sim.Request{ID: sim.RequestID(i), InputTokens: r.Input, OutputTokens: r.Output}
		all[i].Prompt = prompt.Prompt{Blocks: int32(r.Input / size), Seed: int32(i + 1)}
	}
	if p == nil {
		return all, m.Settings.treeFor(nil), nil
	}
	if err := p.check(m.Requests); err != nil {
		return nil, nil, err
	}
	t = m.Settings.treeFor(p)
	list := t.AddAll(len(all), func(i int) ([]uint64, int) { return p.ids[m.Requests[i].Place], m.Requests[i].Input })
	for i := range all {
		all[i].Prompt = list.At(i)
	}
	return all, t, nil
}

// check refuses prompts that are not those of the requests. They are in the order of the
// file, requests in that of arrival.
func (p *Prompts) check(requests []Request) error {
	if len(p.ids) != len(requests) {
		return fmt.Errorf("%s: %d prompts, want one for each of the %d requests", p.path, len(p.ids), len(requests))
	}
	for i := range requests {
		if r := &requests[i]; p.lengths[r.Place] != r.Input {
			return fmt.Errorf("%s:%d: input_length is %d, want %d as measured", p.path, r.Place+1, p.lengths[r.Place], r.Input)
		}
	}
	return nil
}
