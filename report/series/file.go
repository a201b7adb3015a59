package series

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/internal/json"
)

// FileName is the name of a series in a run directory.
const FileName = "series.json"

// File is the stored form of a series. The lists of a File have a number per bin.
type File struct {
	BinMS    float64 `json:"bin_ms"`
	Arrived  bins    `json:"arrived"`  // number of requests
	Admitted bins    `json:"admitted"` // requests, when they get a place; again after they have lost it
	Lost     bins    `json:"lost"`     // preempted requests
	Finished bins    `json:"finished"` // requests
	Output   bins    `json:"output_tokens"`
	// WorkerBinMS is the bin width of the workers, which is larger.
	WorkerBinMS float64  `json:"worker_bin_ms"`
	Workers     []Worker `json:"workers"`
	// Gaps are the times between tokens, in bins of equal ratio.
	Gaps Histogram `json:"gaps"`
}

func (f *File) listBins() []*bins {
	return []*bins{&f.Arrived, &f.Admitted, &f.Lost, &f.Finished, &f.Output}
}

// Worker holds the activity of one worker. Lists with "ms" in their names are sums over time.
type Worker struct {
	Decode   bool   `json:"decode_stage,omitempty"`
	ID       int    `json:"id"`
	Kind     string `json:"kind,omitempty"` // in a mix
	Blocks   int    `json:"blocks"`
	Passes   int    `json:"passes"`
	Tokens   int    `json:"tokens"`
	Requests int    `json:"requests"`
	Busy     bins   `json:"busy_ms"`
	Held     bins   `json:"held_block_ms"`
	Cached   bins   `json:"cached_block_ms"`    // cached blocks that no request uses
	Batch    bins   `json:"batch_request_ms"`   // requests that get a token in a pass
	Waiting  bins   `json:"waiting_request_ms"` // requests in the queue
	Prefill  bins   `json:"prefill_ms"`         // time of prefill parts
	Computed bins   `json:"computed_tokens"`    // prompt tokens
	Prompts  bins   `json:"prompt_tokens"`      // prompt tokens of requests at their first admission
	Reused   bins   `json:"reused_tokens"`      // tokens of these that were found in a cache
}

func (w *Worker) listBins() []*bins {
	return []*bins{&w.Busy, &w.Held, &w.Cached, &w.Batch, &w.Waiting, &w.Prefill, &w.Computed, &w.Prompts, &w.Reused}
}

// workerBins is the maximum number of bins of all workers together. A worker has at most fewBins.
const (
	workerBins = 64 * 256
	fewBins    = 256
)

// File returns the stored form of the series.
func (s *Series) File() *File {
	f := s.all
	for _, b := range f.listBins() {
		*b = b.kept(0)
	}
	folds, n := 0, len(s.workers[0])+len(s.workers[1])
	for most>>folds > fewBins || n*most>>folds > workerBins {
		folds++
	}
	f.WorkerBinMS = f.BinMS * float64(int(1)<<folds)
	for stage, workers := range s.workers {
		for id, w := range workers {
			w.Decode, w.ID, w.Kind = stage == 1, id, s.kindOf(stage, id)
			for _, b := range w.listBins() {
				*b = b.kept(folds)
			}
			f.Workers = append(f.Workers, w)
		}
	}
	return &f
}

// Write writes the series as JSON.
func (s *Series) Write(w io.Writer) error { return json.NewEncoder(w).Encode(s.File()) }

// ReadFile reads the output of Write.
func ReadFile(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := new(File)
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !(f.BinMS > 0) || !(f.WorkerBinMS > 0) {
		return nil, fmt.Errorf("%s: bins are %v and %v ms wide, must be more than 0", path, f.BinMS, f.WorkerBinMS)
	}
	return f, nil
}

// WorkersFile is the name of the file of worker totals in a run directory.
const WorkersFile = "workers.json"

// Total holds the totals of one worker in the run. Shares and mean numbers of blocks are over its busy time.
type Total struct {
	Stage       string  `json:"stage"` // aggregated, prefill or decode
	Worker      int     `json:"worker"`
	Kind        string  `json:"kind,omitempty"` // in a mix
	Requests    int     `json:"requests"`       // routed to the worker
	Passes      int     `json:"passes"`
	BusyMS      float64 `json:"busy_ms"`
	PrefillMS   float64 `json:"prefill_ms"`      // time of the prefill parts of passes
	Computed    int     `json:"computed_tokens"` // prompt tokens
	Prompts     int     `json:"prompt_tokens"`   // of requests at their first admission
	Reused      int     `json:"reused_tokens"`   // tokens of these that were found in the cache
	Output      int     `json:"output_tokens"`   // generated
	Blocks      int     `json:"kv_blocks"`
	MeanHeld    float64 `json:"mean_held_blocks"`
	MeanCached  float64 `json:"mean_cached_blocks"`
	MeanBatch   float64 `json:"mean_batch_requests"` // that gain a token in a pass, by time
	MeanWaiting float64 `json:"mean_waiting_requests"`
}

// ReadKinds returns the kinds of workers, by id, from the file of worker totals in a run directory. ReadKinds returns
// nil if all workers are equal or the kinds were not recorded.
func ReadKinds(dir string) ([]string, error) {
	path := filepath.Join(dir, WorkersFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Total
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var kinds []string
	for i := range all {
		if all[i].Kind != "" && all[i].Worker == len(kinds) {
			kinds = append(kinds, all[i].Kind)
		}
	}
	return kinds, nil
}

// Totals returns the totals of the workers, those of the decode stage last.
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
			whole := func(b bins) int { return int(math.Round(b.sum())) } // parts were spread over bins
			all = append(all, Total{
				Stage: name, Worker: id, Kind: s.kindOf(stage, id), Requests: w.Requests, Passes: w.Passes, BusyMS: roundDigits(busy), PrefillMS: roundDigits(w.Prefill.sum()),
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
