package series

import (
	"encoding/json"
	"io"
	"math"
)

// WorkersFile is the name of the workers' totals in a run directory.
const WorkersFile = "workers.json"

// Total is what one worker did in the whole run. Shares and means of blocks are
// over the time in which it was busy.
type Total struct {
	Stage       string  `json:"stage"` // aggregated, prefill or decode
	Worker      int     `json:"worker"`
	Requests    int     `json:"requests"` // placed on it
	Passes      int     `json:"passes"`
	BusyMS      float64 `json:"busy_ms"`
	PrefillMS   float64 `json:"prefill_ms"`      // of it, in the prefill parts of passes
	Computed    int     `json:"computed_tokens"` // prompt tokens
	Prompts     int     `json:"prompt_tokens"`   // of requests admitted for the first time
	Reused      int     `json:"reused_tokens"`   // of those, found in the cache
	Output      int     `json:"output_tokens"`   // gained
	Blocks      int     `json:"kv_blocks"`
	MeanHeld    float64 `json:"mean_held_blocks"`
	MeanCached  float64 `json:"mean_cached_blocks"`
	MeanBatch   float64 `json:"mean_batch_requests"` // that gain a token in a pass, by time
	MeanWaiting float64 `json:"mean_waiting_requests"`
}

// Totals are what the workers did, those of the decode stage last.
func (s *Series) Totals() []Total {
	all := []Total{}
	for stage, workers := range s.workers {
		for id, w := range workers {
			name := "aggregated"
			switch {
			case stage == 1:
				name = "decode"
			case len(s.workers[1]) > 0:
				name = "prefill"
			}
			busy := w.Busy.sum()
			over := func(b bins) float64 {
				if busy == 0 {
					return 0
				}
				return roundDigits(b.sum() / busy)
			}
			whole := func(b bins) int { return int(math.Round(b.sum())) } // of which parts were spread
			all = append(all, Total{
				Stage: name, Worker: id, Requests: w.Requests, Passes: w.Passes, BusyMS: roundDigits(busy), PrefillMS: roundDigits(w.Prefill.sum()),
				Computed: whole(w.Computed), Prompts: whole(w.Prompts), Reused: whole(w.Reused), Output: w.Tokens,
				Blocks: w.Blocks, MeanHeld: over(w.Held), MeanCached: over(w.Cached), MeanBatch: over(w.Batch), MeanWaiting: over(w.Waiting),
			})
		}
	}
	return all
}

// WriteWorkers writes the totals as JSON.
func (s *Series) WriteWorkers(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(s.Totals())
}
