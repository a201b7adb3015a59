// Package passes records every forward pass of a run, and finds the first different pass of two runs.
//
// Read passes.go (the records), then parting.go (the comparison).
package passes

import (
	"fmt"
	"io"

	"github.com/replay-llm/replay/internal/file"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/parquet"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// FileName is the name of the passes in a run directory.
const FileName = "passes.parquet"

// Pass is a forward pass of a worker, or a run of equal consecutive passes. Times are in ms, and requests are named
// by id. The tags name the columns of the file.
type Pass struct {
	Decode bool    `parquet:"decode_stage"` // on a worker of the decode stage
	Worker int32   `parquet:"worker"`
	Start  float64 `parquet:"start_ms"`
	End    float64 `parquet:"end_ms"`        // end of the last pass of the run
	Gap    float64 `parquet:"each_ms"`       // duration of each pass
	Count  int32   `parquet:"passes"`        // number of passes in the run, at least 1
	Prompt int32   `parquet:"prompt_tokens"` // computed in each
	Tokens int32   `parquet:"tokens"`        // tokens generated in each pass

	// Running and the fields after it are the state after the last pass.
	Running int32 `parquet:"running"`
	Waiting int32 `parquet:"waiting"`
	Held    int32 `parquet:"held_blocks"`
	Cached  int32 `parquet:"cached_blocks"`

	Admitted []int32 `parquet:"admitted"`        // admitted requests, in order
	Computed []int32 `parquet:"computed"`        // requests with computed prompt tokens, in order
	Chunks   []int32 `parquet:"computed_tokens"` // of each of those
	Lost     []int32 `parquet:"preempted"`       // preempted requests, in order
}

// Log collects the passes of a run. The passes of a worker are in order of time. Log observes the replay.
type Log struct {
	harness.NoObserver
	Passes []Pass
}

// Pass adds a pass or a run of passes. Passes of different durations are added separately.
func (l *Log) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	kept := keepPass(stage, w, p)
	if len(p.Ends) == 0 {
		l.Passes = append(l.Passes, kept)
	}
	for i := range p.Ends {
		kept.Start, kept.End, kept.Gap, kept.Count = float64(p.Begins(i)), float64(p.Ends[i]), float64(p.GapOf(i)), 1
		l.Passes = append(l.Passes, kept)
	}
}

// keepPass returns the part of a pass that is stored.
func keepPass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) Pass {
	kept := Pass{
		Decode: stage == scheduler.Decode, Worker: int32(w),
		Start: float64(p.Start), End: float64(p.End), Gap: float64(p.Gap), Count: int32(p.Count),
		Prompt: int32(p.PrefillTokens), Tokens: int32(p.Tokens),
	}
	for i := range p.Admitted {
		kept.Admitted = append(kept.Admitted, int32(p.Admitted[i].Request))
	}
	if d := p.Detail; d != nil {
		kept.Running, kept.Waiting, kept.Held, kept.Cached = int32(d.Running), int32(d.Waiting), int32(d.Held), int32(d.Cached)
		for i := range d.Work {
			if n := d.Work[i].Prompt + d.Work[i].Recomputed; n > 0 {
				kept.Computed = append(kept.Computed, int32(d.Work[i].Request))
				kept.Chunks = append(kept.Chunks, int32(n))
			}
		}
		for _, id := range d.Lost {
			kept.Lost = append(kept.Lost, int32(id))
		}
	}
	return kept
}

// Write writes the passes as a Parquet file.
func (l *Log) Write(w io.Writer) error { return parquet.WriteRows(w, l.Passes) }

// ReadFile reads a file that Write has written. The error wraps fs.ErrNotExist if the file does not exist.
func ReadFile(path string) ([]Pass, error) {
	if _, err := file.Stat(path); err != nil {
		return nil, err
	}
	all, err := parquet.ReadRows[Pass](path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range all {
		if p := &all[i]; p.Count < 1 || len(p.Computed) != len(p.Chunks) || p.Worker < 0 {
			return nil, fmt.Errorf("%s: pass %d makes no sense: %+v", path, i, *p)
		}
	}
	return all, nil
}
