package schedules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/loadgen/formats/write"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/sim"
)

// Cut is a trace that was split into one file per hour, so that only a few hours are in memory.
type Cut struct {
	dir    string
	block  int     // tokens per hash id
	first  float64 // arrival of the first row, in ms of the trace
	last   float64
	length float64 // length of an hour of the replay, in ms of the trace
	hours  []cutHour
	CutOptions
}

// CutOptions are the settings for replays of the hours of a trace.
type CutOptions struct {
	Speedup float64
	Growth  float64 // factor for the number of sessions of each hour
	Seed    uint64
	Classes []loadgen.Class // classes of requests
}

// cutHour has the totals of an hour.
type cutHour struct {
	requests int
	tokens   int64 // prompt and output tokens
}

// mostOpen is the maximum number of hour files that are open for writing.
const mostOpen = 8

// cutter writes the rows of a trace to the files of their hours.
type cutter struct {
	*Cut
	open     map[int]*hourFile
	sessions map[string]int // hour in which a session begins, by session
	started  bool
	fresh    uint64 // number of generated block names
}

// hourFile is an open file of an hour.
type hourFile struct {
	file   *os.File
	writer *write.Writer
}

// CutTrace reads a trace once and writes its hours to temporary files. Close removes these files. A session belongs
// to the hour in which it begins.
func CutTrace(s *formats.Stream, o CutOptions) (*Cut, error) {
	dir, err := os.MkdirTemp("", "replay-hours-")
	if err != nil {
		return nil, err
	}
	c := &cutter{
		Cut:  &Cut{dir: dir, block: s.Block, length: float64(hourMS) * o.Speedup, CutOptions: o},
		open: map[int]*hourFile{}, sessions: map[string]int{},
	}
	err = formats.Each(s, func(r *formats.Record) error { return c.add(s, r) })
	for k := range c.open {
		err = errors.Join(err, c.closeHour(k))
	}
	if err == nil && c.last-c.first < 2*c.length {
		err = refuseShort(c.span())
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c.Cut, nil
}

// add writes a row to the file of its hour.
func (c *cutter) add(s *formats.Stream, r *formats.Record) error {
	hour, known := 0, false
	if r.Session != nil {
		hour, known = c.sessions[string(r.Session)]
	}
	switch {
	case known:
	case r.Name != "":
		return s.RowError(r, "waits for requests other than the turn before it: must be a trace without graphs with --stream")
	case !r.HasAt || math.IsNaN(r.At) || math.IsInf(r.At, 0):
		return s.RowError(r, "has no timestamp, which --by-hour requires")
	case c.started && r.At < c.first:
		return s.RowError(r, "arrives before the first row: the first row must be the earliest with --stream")
	default:
		if !c.started {
			c.first, c.last, c.started = r.At, r.At, true
		}
		c.last = max(c.last, r.At)
		hour = int((r.At - c.first) / c.length)
		if r.Session != nil {
			c.sessions[string(r.Session)] = hour
		}
	}
	for hour >= len(c.hours) {
		if len(c.hours) == mostHours {
			return s.RowError(r, "arrives more than %d hours after the first row, must be at most that many with --by-hour", mostHours)
		}
		c.hours = append(c.hours, cutHour{})
	}
	c.hours[hour].requests++
	c.hours[hour].tokens += int64(r.Input) + int64(r.Output)
	c.nameBlocks(r)
	f, err := c.openHour(hour)
	if err != nil {
		return err
	}
	return f.writer.Write(r)
}

// nameBlocks generates unique names for the blocks of a prompt that no other prompt shares.
func (c *cutter) nameBlocks(r *formats.Record) {
	if r.Private {
		r.IDs = r.IDs[:0]
	}
	for i := range r.IDs {
		r.IDs[i] &= math.MaxInt64 // the maximum id in a file
	}
	if r.Private || r.Full {
		for len(r.IDs) < (r.Input+c.block-1)/c.block {
			r.IDs = append(r.IDs, math.MaxInt64-c.fresh)
			c.fresh++
		}
	}
}

// mostHours is the maximum number of hours of a trace: ten years.
const mostHours = 87600

// nameHour returns the path of the file of an hour.
func (c *Cut) nameHour(k int) string { return filepath.Join(c.dir, fmt.Sprintf("%d.jsonl", k)) }

// openHour returns the open file of an hour.
func (c *cutter) openHour(k int) (*hourFile, error) {
	if f := c.open[k]; f != nil {
		return f, nil
	}
	if len(c.open) == mostOpen {
		oldest := math.MaxInt
		for other := range c.open {
			oldest = min(oldest, other)
		}
		if err := c.closeHour(oldest); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(c.nameHour(k), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	writer, err := write.NewWriter(file, "mooncake", c.block)
	c.open[k] = &hourFile{file, writer}
	return c.open[k], err
}

func (c *cutter) closeHour(k int) error {
	f := c.open[k]
	delete(c.open, k)
	return errors.Join(f.writer.Flush(), f.file.Close())
}

// Close removes the files.
func (c *Cut) Close() error { return os.RemoveAll(c.dir) }

// Busiest returns the hour with the most tokens.
func (c *Cut) Busiest() int {
	busiest := 0
	for k := range c.hours {
		if c.hours[k].tokens > c.hours[busiest].tokens {
			busiest = k
		}
	}
	return busiest
}

// span returns the simulated time from the first to the last arrival.
func (c *Cut) span() sim.Time { return sim.Time((c.last - c.first) / c.length * float64(hourMS)) }

// Open returns the sessions that begin in the hours from <= hour < to. Time 0 of the workload is the beginning of the
// first of these hours.
func (c *Cut) Open(ctx context.Context, from, to int) (*loadgen.Workload, error) {
	w, err := c.open(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return plan.Grow(w, c.Growth, c.Seed), nil
}

// OpenBusiest returns the recorded sessions of the hour with the most tokens, without Growth.
func (c *Cut) OpenBusiest(ctx context.Context) (*loadgen.Workload, error) {
	k := c.Busiest()
	return c.open(ctx, k, k+1)
}

func (c *Cut) open(ctx context.Context, from, to int) (*loadgen.Workload, error) {
	var all []io.Reader
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for k := from; k < to; k++ {
		if c.hours[k].requests == 0 {
			continue
		}
		f, err := os.Open(c.nameHour(k))
		if err != nil {
			return nil, err
		}
		files, all = append(files, f), append(all, f)
	}
	if len(all) == 0 {
		return &loadgen.Workload{Synthetic: true}, nil
	}
	w, err := registry.Read(io.MultiReader(all...), fmt.Sprintf("hour %d of the trace", from), formats.Options{TraceBlock: c.block, Strict: true, Stop: ctx.Err, Seed: c.Seed})
	if err == nil && len(c.Classes) > 0 {
		err = w.Classify(c.Classes)
	}
	if err != nil {
		return nil, err
	}
	begin := sim.Time(c.first + float64(from)*c.length)
	for i := range w.Sessions {
		w.Sessions[i].Arrival -= begin
	}
	return w, nil
}

// refuseShort returns the error for a trace of less than two hours.
func refuseShort(covers sim.Time) error {
	return cli.Usagef("--by-hour: the requests of the trace arrive within %s, must be at least 2 hours", roundSeconds(covers))
}

// pairOf returns the workload of an hour together with the previous hour, and the simulated time at which the hour
// begins. The begin of the hour is at most 0 if no request arrives before the hour.
func (r *Runner) pairOf(ctx context.Context, c *Cut, k int) (*loadgen.Workload, sim.Time, error) {
	from := max(0, k-1)
	w, err := c.Open(ctx, from, k+1)
	if err != nil {
		return nil, 0, err
	}
	first, _ := plan.Span(w)
	return w, hourMS*sim.Time(k-from) - first/sim.Time(r.Spec.Speedup), nil
}

// quantileOf returns a quantile of sizes by the nearest rank.
func quantileOf(sizes []int, q float64) int {
	slices.Sort(sizes)
	return sizes[min(len(sizes)-1, max(0, int(math.Ceil(q*float64(len(sizes))-1e-9))-1))]
}
