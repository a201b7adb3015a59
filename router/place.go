package router

import (
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// Route takes in a request. What is cached of it counts as of now, even if it
// is held back.
func (r *KV) Route(now sim.Time, q *sim.Request, dst []Placement) ([]Placement, error) {
	at, err := r.clock(now)
	if err != nil {
		return dst, err
	}
	if err := r.know(q.ID); err != nil {
		return dst, err
	}
	r.index.match(&q.Prompt, &r.overlap)
	if r.config.QueueThreshold != nil && r.allBusy(at) {
		return dst, r.hold(now, q)
	}
	return r.admit(at, q, dst)
}

// hold holds a request back with its overlaps, which it uses up.
func (r *KV) hold(now sim.Time, q *sim.Request) error {
	at, err := instant(now)
	if err != nil {
		return err
	}
	r.queue.push(q, r.key(at, q), &r.overlap)
	r.record[q.ID] = isHeld
	r.overlap.clear()
	return nil
}

// know makes room for a request that must be new.
func (r *KV) know(id sim.RequestID) error {
	if int(id) >= len(r.record) {
		wide := make([]int32, max(int(id)+1, 2*len(r.record)))
		copy(wide, r.record)
		r.record = wide
	}
	switch at := r.record[id]; at {
	case 0:
		return nil
	case isHeld:
		return &RequestError{Request: id, Worker: None, Known: true}
	default:
		return &RequestError{Request: id, Worker: r.records[at-1].worker, Known: true}
	}
}

// key is the priority of a request to be held; the largest goes first.
func (r *KV) key(at timing.Nanos, q *sim.Request) float64 {
	switch r.config.QueuePolicy {
	case LCFS:
		return 0 + at.Seconds()
	case WSPT:
		uncached := int64(q.InputTokens) - int64(r.overlap.max)*r.blockTokens
		return 1 / float64(max(1, uncached))
	default:
		return 0 - at.Seconds()
	}
}

// admit places a request by its overlaps, which it uses up.
func (r *KV) admit(now timing.Nanos, q *sim.Request, dst []Placement) ([]Placement, error) {
	if len(r.workers.ids) == 0 {
		r.overlap.clear()
		return dst, &NoWorkersError{Request: q.ID}
	}
	j := job{tokens: int64(q.InputTokens)}
	if r.config.TrackActiveBlocks {
		j.blocks = int64(q.Prompt.Blocks)
		if r.sharing(q) {
			r.loads.match(&q.Prompt, &r.depth)
		}
	}
	var c choice
	if tokens := r.activeTokens(now); r.rand == nil {
		c = r.cheapest(j, tokens)
	} else {
		c = r.drawn(j, tokens)
	}
	overlap := r.overlap.by[c.worker]
	r.overlap.clear()
	r.depth.clear()
	r.begin(now, q, c.worker, overlap)
	return append(dst, Placement{
		Request: q, Worker: c.worker,
		Overlap: overlap, Blocks: int32((j.tokens + r.blockTokens - 1) / r.blockTokens),
		Cost: c.cost, Second: c.second, SecondCost: c.secondCost,
	}), nil
}

// sharing says whether the active blocks of a request may be those of others.
func (r *KV) sharing(q *sim.Request) bool {
	return r.config.AssumeKVReuse && !q.Prompt.Unique()
}

// activeTokens is the prompt tokens still to compute, by worker.
func (r *KV) activeTokens(now timing.Nanos) []int64 {
	f := &r.prefills
	if r.estimator == nil {
		return f.tokens
	}
	for _, w := range r.workers.ids {
		f.left[w] = f.decayed(now, r.records, w)
	}
	return f.left
}

// begin counts a request's load on its worker.
func (r *KV) begin(now timing.Nanos, q *sim.Request, w sim.WorkerID, overlap int32) {
	var i int32
	if k := len(r.vacant); k > 0 {
		i, r.vacant = r.vacant[k-1], r.vacant[:k-1]
	} else {
		i = int32(len(r.records))
		r.records = append(r.records, record{})
	}
	r.record[q.ID] = i + 1
	r.records[i] = record{request: q, worker: w}
	if r.config.TrackActiveBlocks {
		if r.sharing(q) {
			r.loads.add(w, &q.Prompt)
		} else {
			r.loads.blocks[w] += int64(q.Prompt.Blocks)
		}
	}
	if r.config.TrackPrefillTokens {
		r.beginPrefill(now, i, overlap)
	}
}

func (r *KV) beginPrefill(now timing.Nanos, i, overlap int32) {
	x := &r.records[i]
	isl := int64(x.request.InputTokens)
	prefix := min(int64(overlap)*r.blockTokens, isl)
	x.charge = isl - prefix
	if x.charge == 0 {
		return
	}
	if r.estimator != nil {
		if s, ok := r.estimator.PrefillSeconds(1, int(x.charge), int(prefix)); ok {
			if d, err := timing.FromSeconds(s); err == nil {
				x.duration, x.timed = d, true
			}
		}
	}
	before := r.isBusy(x.worker)
	r.prefills.start(now, r.records, i)
	r.countBusy(x.worker, before)
}

func (r *KV) endPrefill(now timing.Nanos, i int32) {
	x := &r.records[i]
	if x.charge == 0 {
		return
	}
	before := r.isBusy(x.worker)
	r.prefills.end(now, r.records, i)
	r.countBusy(x.worker, before)
}

// PrefillDone takes the request's prompt tokens off its worker.
func (r *KV) PrefillDone(now sim.Time, id sim.RequestID, dst []Placement) ([]Placement, error) {
	at, err := r.clock(now)
	if err != nil {
		return dst, err
	}
	i, ok := r.find(id)
	if !ok {
		return dst, &RequestError{Request: id, Worker: None}
	}
	r.endPrefill(at, i)
	return r.drain(at, dst)
}

// Finished takes everything of the request off its worker.
func (r *KV) Finished(now sim.Time, id sim.RequestID, dst []Placement) ([]Placement, error) {
	at, err := r.clock(now)
	if err != nil {
		return dst, err
	}
	if i, ok := r.find(id); ok {
		r.end(at, i)
	}
	return r.drain(at, dst)
}

func (r *KV) find(id sim.RequestID) (int32, bool) {
	if int(id) >= len(r.record) || r.record[id] <= 0 {
		return 0, false
	}
	return r.record[id] - 1, true
}

func (r *KV) end(now timing.Nanos, i int32) {
	r.endPrefill(now, i)
	q, w := r.records[i].request, r.records[i].worker
	if r.config.TrackActiveBlocks {
		if r.sharing(q) {
			r.loads.remove(w, &q.Prompt)
		} else {
			r.loads.blocks[w] -= int64(q.Prompt.Blocks)
		}
	}
	r.record[q.ID] = 0
	r.records[i] = record{}
	r.vacant = append(r.vacant, i)
}
