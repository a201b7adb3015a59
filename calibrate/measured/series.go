package measured

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"

	"github.com/replay-llm/replay/internal/stable"
)

// sample is a line of timeseries.csv, which a server reports once per second.
type sample struct {
	at               float64 // s
	running, waiting int     // number of requests
	kvShare          float64 // share of the KV cache in use, 0 to 1; NaN: missing
}

// readSeries reads a file of samples. The file may be absent.
func readSeries(path string) ([]sample, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(lines) == 0 {
		return nil, nil
	}
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	field := func(line []string, name string) float64 {
		if i, ok := column[name]; ok {
			if v, err := strconv.ParseFloat(line[i], 64); err == nil {
				return v
			}
		}
		return math.NaN()
	}
	var all []sample
	for _, line := range lines[1:] {
		x := sample{at: field(line, "t"), kvShare: field(line, "kv_cache_pct") / 100}
		r, w := field(line, "running"), field(line, "waiting")
		if math.IsNaN(r) || math.IsNaN(w) {
			continue
		}
		x.running, x.waiting = int(r), int(w)
		all = append(all, x)
	}
	return all, nil
}

// resolveOpen determines missing settings from the observed behaviour of the server.
func (s *Settings) resolveOpen(name string, requests []Request, load []sample) {
	if s.GPU == "" {
		s.GPU = gpuOf(name)
	}
	if s.Blocks > 0 || len(s.missing) > 0 {
		return
	}
	need := 0
	for i := range requests {
		need = max(need, (requests[i].Input+requests[i].Output)/s.BlockTokens+2)
	}
	seats := s.MaxSeqs * s.DataParallel
	most, queued := 0, false
	for _, x := range load {
		most = max(most, x.running)
		// There is a queue although a seat is free, so requests wait for blocks. If only a few requests wait, the
		// sample may be from between two passes.
		queued = queued || x.waiting > 3 && x.running < seats*9/10
	}
	switch {
	case len(load) == 0:
		s.missing = append(s.missing, "num_gpu_blocks is missing, and there is no timeseries.csv to show its effect: requires it in kv_cache")
	case queued && most < seats:
		if s.Blocks = estimateBlocks(s.BlockTokens, seats, requests, load) / s.DataParallel; s.Blocks < need {
			s.missing = append(s.missing, fmt.Sprintf(
				"num_gpu_blocks is missing and requests waited while %d of %d ran: requires it in kv_cache, or --num-gpu-blocks", most, seats))
		}
		s.Estimated = true
	default:
		s.Blocks = max(s.MaxSeqs, 1)*need + 1
		s.AddNote("num_gpu_blocks is not told: enough for all that ran, which the queue shows")
	}
}

// fullShare is the average share of blocks in use while requests wait for blocks.
const fullShare = 0.985

// estimateBlocks returns the number of KV blocks of a server if requests waited although seats were free. The result
// is the number of blocks that running requests used while requests waited. The result is 0 if this was never observed.
func estimateBlocks(blockTokens, maxSeqs int, requests []Request, load []sample) int {
	var used []float64
	for _, x := range load {
		if x.waiting > 3 && x.running < maxSeqs*9/10 && x.running > 0 {
			used = append(used, blocksInUse(blockTokens, requests, x))
		}
	}
	if len(used) < 3 {
		return 0
	}
	return int(QuantileOf(used, 0.5) / fullShare)
}

// blocksInUse returns the number of blocks that the running requests of a sample hold. blocksInUse assumes that each
// request gets its tokens at a constant rate. Preempted requests are the ones that were admitted last.
func blocksInUse(blockTokens int, requests []Request, x sample) float64 {
	var active []*Request
	for i := range requests {
		r := &requests[i]
		admitted := r.Scheduled
		if math.IsNaN(admitted) {
			admitted = r.First
		}
		if admitted <= x.at && x.at < r.Last {
			active = append(active, r)
		}
	}
	stable.Sort(active, func(a, b *Request) int { return cmp.Compare(a.Scheduled, b.Scheduled) })
	blocks := 0.0
	for _, r := range active[:min(len(active), x.running)] {
		tokens := float64(r.Input)
		if x.at > r.First && r.Last > r.First {
			tokens += 1 + float64(r.Output-1)*(x.at-r.First)/(r.Last-r.First)
		}
		blocks += math.Ceil(tokens / float64(blockTokens))
	}
	return blocks
}
