package router

import (
	"math"

	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// Estimator predicts how long a prefill takes.
type Estimator interface {
	// PrefillSeconds is the time for a batch of prompts with newTokens to compute
	// each, after prefix cached ones. ok is false when it cannot tell.
	PrefillSeconds(batch, newTokens, prefix int) (seconds float64, ok bool)
}

// record is a request that runs on a worker.
type record struct {
	request *sim.Request
	worker  sim.WorkerID
	charge  int64 // prompt tokens still to compute; 0 once they are

	// The outstanding prefills of a worker form a list, oldest first.
	older, newer int32 // records; nowhere at the ends
	timed        bool  // the charge decays over duration
	duration     timing.Nanos
}

const nowhere = -1

// prefills counts the prompt tokens still to compute on each worker.
//
// The oldest outstanding prefill of a worker decays while it is the oldest, if
// its duration was predicted; all others count in full.
type prefills struct {
	tokens []int64        // by worker: sum of the charges
	oldest []int32        // by worker: record, or nowhere
	newest []int32        // by worker: record, or nowhere
	since  []timing.Nanos // by worker: when the oldest became the oldest
	left   []int64        // by worker: scratch of active
}

func (f *prefills) grow(workers int) {
	for len(f.tokens) < workers {
		f.tokens = append(f.tokens, 0)
		f.oldest = append(f.oldest, nowhere)
		f.newest = append(f.newest, nowhere)
		f.since = append(f.since, timing.Nanos{})
		f.left = append(f.left, 0)
	}
}

// start counts the charge of a record, which is > 0.
func (f *prefills) start(now timing.Nanos, records []record, i int32) {
	x := &records[i]
	w := x.worker
	f.tokens[w] += x.charge
	x.older, x.newer = f.newest[w], nowhere
	if x.older == nowhere {
		f.oldest[w], f.since[w] = i, now
	} else {
		records[x.older].newer = i
	}
	f.newest[w] = i
}

// end takes the charge of a record off again, which is > 0.
func (f *prefills) end(now timing.Nanos, records []record, i int32) {
	x := &records[i]
	w := x.worker
	f.tokens[w] -= x.charge
	x.charge = 0
	if x.newer == nowhere {
		f.newest[w] = x.older
	} else {
		records[x.newer].older = x.older
	}
	if x.older == nowhere {
		f.oldest[w], f.since[w] = x.newer, now
	} else {
		records[x.older].newer = x.newer
	}
}

// decayed is the tokens still to compute on a worker, less what the oldest
// prefill has done by its prediction.
func (f *prefills) decayed(now timing.Nanos, records []record, w sim.WorkerID) int64 {
	i := f.oldest[w]
	if i == nowhere {
		return 0
	}
	x := &records[i]
	return f.tokens[w] - x.charge + remaining(x, elapsed(f.since[w], now))
}

func remaining(x *record, elapsed float64) int64 {
	if !x.timed {
		return x.charge
	}
	duration := x.duration.Seconds()
	if duration == 0 {
		return 0
	}
	share := min(max(1-elapsed/duration, 0), 1)
	return int64(math.Ceil(float64(float64(x.charge) * share)))
}

// elapsed is the time from since to now in seconds, 0 if it runs backwards.
func elapsed(since, now timing.Nanos) float64 {
	if now.Sec < since.Sec || now.Sec == since.Sec && now.Nano < since.Nano {
		return 0
	}
	d := timing.Nanos{Sec: now.Sec - since.Sec, Nano: now.Nano - since.Nano}
	if now.Nano < since.Nano {
		d = timing.Nanos{Sec: d.Sec - 1, Nano: now.Nano + 1_000_000_000 - since.Nano}
	}
	return d.Seconds()
}

// instant rounds a virtual instant to whole nanoseconds.
func instant(now sim.Time) (timing.Nanos, error) {
	return timing.FromSeconds(float64(now.Max0()) / 1000)
}

// clock is instant where somebody looks at it: without an estimator nothing
// decays. It refuses the same instants.
func (r *KV) clock(now sim.Time) (timing.Nanos, error) {
	if r.estimator == nil && now < farthest {
		return timing.Nanos{}, nil
	}
	return instant(now)
}

// farthest is below what instant refuses.
const farthest sim.Time = 0x1p64
