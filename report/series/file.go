package series

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
)

// FileName is the name of a series in a run directory.
const FileName = "series.json"

// File is a series as it is kept. Its lists have a number per bin.
type File struct {
	BinMS    float64   `json:"bin_ms"`
	Arrived  []float64 `json:"arrived"`
	Admitted []float64 `json:"admitted"`
	Lost     []float64 `json:"lost"`
	Finished []float64 `json:"finished"`
	Output   []float64 `json:"output_tokens"`
	// Workers have wider bins.
	WorkerBinMS float64  `json:"worker_bin_ms"`
	Workers     []Worker `json:"workers"`
	// Gaps are the times between tokens, in bins of equal ratio.
	Gaps Histogram `json:"gaps"`
}

// Worker is what one worker did. Lists that say "ms" are sums over time.
type Worker struct {
	Decode   bool      `json:"decode_stage,omitempty"`
	ID       int       `json:"id"`
	Blocks   int       `json:"blocks"`
	Passes   int       `json:"passes"`
	Tokens   int       `json:"tokens"`
	Requests int       `json:"requests"`
	Busy     []float64 `json:"busy_ms"`
	Held     []float64 `json:"held_block_ms"`
	Cached   []float64 `json:"cached_block_ms"`
	Batch    []float64 `json:"batch_request_ms"`
	Waiting  []float64 `json:"waiting_request_ms"`
	Prefill  []float64 `json:"prefill_ms"`
	Computed []float64 `json:"computed_tokens"`
	Prompts  []float64 `json:"prompt_tokens"`
	Reused   []float64 `json:"reused_tokens"`
}

// workerBins is the number of bins that workers have together; none has more
// than fewBins.
const (
	workerBins = 64 * 256
	fewBins    = 256
)

// File is the series as it is kept.
func (s *Series) File() *File {
	f := &File{
		BinMS:   float64(s.grid.width),
		Arrived: keptBins(s.arrived, 0), Admitted: keptBins(s.admitted, 0), Lost: keptBins(s.lost, 0),
		Finished: keptBins(s.finished, 0), Output: keptBins(s.output, 0), Gaps: s.gaps,
	}
	folds, n := 0, len(s.workers[0])+len(s.workers[1])
	for most>>folds > fewBins || n*most>>folds > workerBins {
		folds++
	}
	f.WorkerBinMS = f.BinMS * float64(int(1)<<folds)
	for stage, workers := range s.workers {
		for id, w := range workers {
			f.Workers = append(f.Workers, Worker{
				Decode: stage == 1, ID: id, Blocks: w.blocks, Passes: w.passes, Tokens: w.tokens, Requests: w.taken,
				Busy: keptBins(w.busy, folds), Held: keptBins(w.held, folds), Cached: keptBins(w.cached, folds),
				Batch: keptBins(w.batch, folds), Waiting: keptBins(w.waiting, folds), Prefill: keptBins(w.prefill, folds),
				Computed: keptBins(w.computed, folds), Prompts: keptBins(w.prompts, folds), Reused: keptBins(w.reused, folds),
			})
		}
	}
	return f
}

// keptBins is a copy of b in bins 2^folds times as wide, to three digits.
func keptBins(b bins, folds int) []float64 {
	b = append(make(bins, 0, len(b)), b...)
	for range folds {
		b.foldTwice()
	}
	for i := range b {
		b[i] = math.Round(b[i]*1000) / 1000
	}
	return b
}

// Write writes the series as JSON.
func (s *Series) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	if err := json.NewEncoder(out).Encode(s.File()); err != nil {
		return err
	}
	return out.Flush()
}

// ReadFile reads what Write wrote.
func ReadFile(path string) (*File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f := new(File)
	if err := json.NewDecoder(bufio.NewReader(in)).Decode(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !(f.BinMS > 0) || !(f.WorkerBinMS > 0) {
		return nil, fmt.Errorf("%s: bins are %v and %v ms wide, want more than 0", path, f.BinMS, f.WorkerBinMS)
	}
	return f, nil
}
