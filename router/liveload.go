package router

import (
	"slices"

	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// allBusy says whether there are workers and every one has too many prompt
// tokens to compute.
func (r *Live) allBusy(at timing.Nanos) bool {
	for _, id := range r.ids {
		if !(float64(r.workers[id].left(at)) > r.limit) {
			return false
		}
	}
	return len(r.ids) > 0
}

// admit places a request.
func (r *Live) admit(at timing.Nanos, x *liveRequest, dst []LivePlacement) ([]LivePlacement, error) {
	if len(r.ids) == 0 {
		return dst, &NoWorkersError{}
	}
	j := job{tokens: int64(x.Tokens)}
	if r.config.TrackActiveBlocks {
		j.blocks = int64(len(x.Sequence))
	}
	r.costs = r.costs[:0]
	for _, id := range r.ids {
		w := r.workers[id]
		s := state{tokens: w.left(at), blocks: w.blocks, overlap: x.Overlap[id]}
		if r.config.TrackActiveBlocks && r.config.AssumeKVReuse {
			s.depth = w.depth(x.Sequence)
		}
		r.costs = append(r.costs, r.config.cost(r.blockTokens, j, s))
	}
	best := r.choose()
	id := r.ids[best]
	x.at, x.worker = id, r.workers[id]
	r.requests[x.ID] = x
	overlap := x.Overlap[id]
	r.enter(at, x, overlap)
	return append(dst, LivePlacement{
		Request: x.ID, Worker: id, Overlap: overlap,
		Blocks: int32((j.tokens + r.blockTokens - 1) / r.blockTokens), Cost: r.costs[best],
	}), nil
}

// choose is the candidate of least cost, the lowest name among equals, or one
// that is drawn.
func (r *Live) choose() int {
	if r.rand != nil {
		r.odds = append(r.odds[:0], r.costs...)
		return pick(r.odds, odds(r.costs, r.config.Temperature, r.odds), r.rand.Float64())
	}
	best := 0
	for i, c := range r.costs {
		if c < r.costs[best] {
			best = i
		}
	}
	return best
}

// enter counts a request's load on its worker.
func (r *Live) enter(at timing.Nanos, x *liveRequest, overlap int32) {
	w := x.worker
	x.Overlap = nil // used up
	w.running++
	switch {
	case !r.config.TrackActiveBlocks:
		x.Sequence = nil
	case r.config.AssumeKVReuse:
		for _, h := range x.Sequence {
			if w.refs[h]++; w.refs[h] == 1 {
				w.blocks++
			}
		}
	default:
		w.blocks += int64(len(x.Sequence))
	}
	prefix := min(int64(overlap)*r.blockTokens, int64(x.Tokens))
	if charge := int64(x.Tokens) - prefix; r.config.TrackPrefillTokens && charge > 0 {
		x.prefill = record{charge: charge}
		r.predict(&x.prefill, prefix)
		w.begin(at, x)
	}
}

// predict says how long a prefill takes, if anybody can.
func (r *Live) predict(x *record, prefix int64) {
	if r.estimator == nil {
		return
	}
	if s, ok := r.estimator.PrefillSeconds(1, int(x.charge), int(prefix)); ok {
		if d, err := timing.FromSeconds(s); err == nil {
			x.duration, x.timed = d, true
		}
	}
}

// leave takes everything of a request off its worker.
func (r *Live) leave(at timing.Nanos, x *liveRequest) {
	x.endPrefill(at)
	w := x.worker
	if r.config.AssumeKVReuse {
		for _, h := range x.Sequence {
			if w.refs[h]--; w.refs[h] == 0 {
				delete(w.refs, h)
				w.blocks--
			}
		}
	} else {
		w.blocks -= int64(len(x.Sequence))
	}
	w.running--
	r.bury(x.at, w)
}

// depth is the number of leading blocks that are active.
func (w *liveWorker) depth(sequence []uint64) int32 {
	for i, h := range sequence {
		if _, ok := w.refs[h]; !ok {
			return int32(i)
		}
	}
	return int32(len(sequence))
}

// begin counts a prompt to compute.
func (w *liveWorker) begin(at timing.Nanos, x *liveRequest) {
	if len(w.order) == 0 {
		w.since = at
	}
	w.order = append(w.order, x)
	w.tokens += x.prefill.charge
}

// endPrefill takes a prompt off again that is computed.
func (x *liveRequest) endPrefill(at timing.Nanos) {
	if x.prefill.charge == 0 {
		return
	}
	w := x.worker
	w.tokens -= x.prefill.charge
	x.prefill.charge = 0
	i := slices.Index(w.order, x)
	if w.order = slices.Delete(w.order, i, i+1); i == 0 {
		w.since = at
	}
}

// left is the prompt tokens still to compute, less what the oldest prefill has
// done by its prediction.
func (w *liveWorker) left(at timing.Nanos) int64 {
	if len(w.order) == 0 {
		return 0
	}
	oldest := &w.order[0].prefill
	return w.tokens - oldest.charge + remaining(oldest, elapsed(w.since, at))
}

// LiveLoad is a worker's load.
type LiveLoad struct {
	Worker   uint64
	Requests int   // placed and not finished
	Blocks   int64 // active blocks of their prompts
	Tokens   int64 // prompt tokens still to compute
}

// Loads lists the loads of the workers that are candidates, ascending.
func (r *Live) Loads(now sim.Time) ([]LiveLoad, error) {
	at, err := instant(now)
	if err != nil {
		return nil, err
	}
	var all []LiveLoad
	for _, id := range r.ids {
		w := r.workers[id]
		all = append(all, LiveLoad{Worker: id, Requests: w.running, Blocks: w.blocks, Tokens: w.left(at)})
	}
	return all, nil
}
