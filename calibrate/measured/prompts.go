package measured

import (
	"fmt"

	"github.com/replay-llm/replay/internal/json"
)

// Prompts holds the prompts of a run as hash ids. Equal ids are common prefixes.
type Prompts struct {
	BlockTokens int // tokens per id
	IDs         [][]uint64
	Lengths     []int
	Path        string
}

// promptTokens is the number of tokens per id of a file of prompts, unless the caller of ReadPrompts gives another
// number.
const promptTokens = 16

// ReadPrompts reads a file with one line per request, in the order of requests.jsonl. A line has input_length and
// hash_ids.
func ReadPrompts(path string, blockTokens int) (*Prompts, error) {
	if blockTokens == 0 {
		blockTokens = promptTokens
	}
	p := &Prompts{BlockTokens: blockTokens, Path: path}
	return p, readLines(path, func(_ int, text []byte) error {
		var x struct {
			Input int      `json:"input_length"`
			IDs   []uint64 `json:"hash_ids"`
		}
		if err := json.Unmarshal(text, &x); err != nil {
			return err
		}
		if len(x.IDs)*blockTokens < x.Input || x.Input < 1 {
			return fmt.Errorf("%d hash_ids of %d tokens for input_length %d, expected enough of them", len(x.IDs), blockTokens, x.Input)
		}
		p.IDs, p.Lengths = append(p.IDs, x.IDs), append(p.Lengths, x.Input)
		return nil
	})
}

// Check returns an error if the prompts do not belong to the requests. The prompts are in the order of the file, and
// the requests in the order of arrival.
func (p *Prompts) Check(requests []Request) error {
	if len(p.IDs) != len(requests) {
		return fmt.Errorf("%s: %d prompts, expected one for each of the %d requests", p.Path, len(p.IDs), len(requests))
	}
	for i := range requests {
		if r := &requests[i]; p.Lengths[r.Place] != r.Input {
			return fmt.Errorf("%s:%d: input_length is %d, must be %d as measured", p.Path, r.Place+1, p.Lengths[r.Place], r.Input)
		}
	}
	return nil
}
