package router

import "github.com/replay-llm/replay/sim"

// Route routes a request. The cached blocks of the request are determined at this instant, even if the request is
// held.
func (d *Dispatcher) Route(now sim.Time, q *sim.Request, dst []Placement) ([]Placement, error) {
	if d.blind {
		return d.placeBlindly(q, dst)
	}
	if err := d.setClock(now); err != nil {
		return dst, err
	}
	if err := d.checkNew(q.ID); err != nil {
		return dst, err
	}
	if d.admission != nil {
		return d.admit(now, q, dst)
	}
	return d.routeAdmitted(now, q, dst)
}

// routeAdmitted routes an admitted request, which the policy may still hold.
func (d *Dispatcher) routeAdmitted(now sim.Time, q *sim.Request, dst []Placement) ([]Placement, error) {
	if d.needs.Gate != nil {
		return d.routeGated(now, q, dst)
	}
	d.readSignals(now)
	if err := d.matchCaches(now, q); err != nil {
		return dst, err
	}
	switch h := d.needs.Hold; {
	case h != nil && d.allBusy():
		return dst, d.holdRequest(now, q)
	case h != nil && h.Order == WFQ:
		d.fair.serve(d.tagRequest(q))
	}
	return d.placeRequest(q, dst)
}

// tagRequest returns the start tag of a request, with its uncached tokens as the cost.
func (d *Dispatcher) tagRequest(q *sim.Request) float64 {
	return d.fair.tag(q.Class, float64(d.countUncached(q)), WeightOf(d.classes, q.Class))
}

// countUncached returns the number of prompt tokens that no worker has cached, at least 1.
func (d *Dispatcher) countUncached(q *sim.Request) int64 {
	return max(1, int64(q.InputTokens)-int64(d.overlap.max)*d.blockTokens)
}

// Batches reports whether the policy decides on requests of one instant together.
func (d *Dispatcher) Batches() bool {
	_, ok := d.policy.(Batcher)
	return ok && !d.blind
}

// Expect lets a policy that batches decide on the requests that are routed next, at this instant. With an empty list,
// later requests are decided on separately.
func (d *Dispatcher) Expect(now sim.Time, all []*sim.Request) error {
	p := d.policy.(Batcher)
	p.Clear()
	if len(all) == 0 || len(d.workers.ids) == 0 {
		return nil
	}
	d.seen.Queued = len(d.queue.heap)
	d.readSignals(now)
	for _, q := range all {
		if err := d.matchCaches(now, q); err != nil {
			return err
		}
		d.matchActive(q)
		p.Add(q, d.view())
		d.overlap.clear()
		d.active.clear()
	}
	p.Decide()
	return nil
}

// matchActive finds the active blocks of a prompt.
func (d *Dispatcher) matchActive(q *sim.Request) {
	if d.loads != nil {
		d.loads.match(q, &d.active)
	}
	if !d.sparse {
		d.active.spread()
	}
}

// placeBlindly places a request without adding its load.
func (d *Dispatcher) placeBlindly(q *sim.Request, dst []Placement) ([]Placement, error) {
	if len(d.workers.ids) == 0 {
		return dst, &NoWorkersError{Request: q.ID}
	}
	c := d.policy.Choose(q, &d.seen)
	if !d.workers.has(c.Worker) {
		return dst, d.explainChoice(q, c.Worker)
	}
	return append(dst, Placement{Request: q, Worker: c.Worker, Cost: c.Cost, Second: c.Second, SecondCost: c.SecondCost}), nil
}

// holdRequest holds a request with its overlaps, and clears the overlaps of the dispatcher.
func (d *Dispatcher) holdRequest(now sim.Time, q *sim.Request) error {
	key, err := d.queueKey(now, q)
	if err != nil {
		return err
	}
	d.queue.push(q, key, &d.overlap)
	d.record.Set(int(q.ID), isHeld)
	d.overlap.clear()
	return nil
}

// checkNew returns an error if a request is already known.
func (d *Dispatcher) checkNew(id sim.RequestID) error {
	switch at := d.record.Get(int(id)); at {
	case 0:
		return nil
	case isHeld:
		return &RequestError{Request: id, Worker: None, Known: true}
	default:
		return &RequestError{Request: id, Worker: d.records[at-1].worker, Known: true}
	}
}

// queueKey returns the key of a request to be held. The request with the largest key is placed first.
func (d *Dispatcher) queueKey(now sim.Time, q *sim.Request) (float64, error) {
	at, err := roundInstant(now)
	switch {
	case err != nil:
		return 0, err
	case d.needs.Gate != nil || d.needs.Hold.Order == ByPriority:
		return 0 - (float64(byClass*float64(q.Priority)) + at.Seconds()), nil
	case d.needs.Hold.Order == LCFS:
		return 0 + at.Seconds(), nil
	case d.needs.Hold.Order == WSPT:
		return 1 / float64(d.countUncached(q)), nil
	case d.needs.Hold.Order == WFQ:
		return 0 - d.tagRequest(q), nil
	case d.needs.Hold.Order == EDF:
		return 0 - dueOf(d.classes, q), nil
	}
	return 0 - at.Seconds(), nil
}

// placeRequest places a request by its overlaps, and clears the overlaps of the dispatcher.
func (d *Dispatcher) placeRequest(q *sim.Request, dst []Placement) ([]Placement, error) {
	if len(d.workers.ids) == 0 {
		d.overlap.clear()
		return dst, &NoWorkersError{Request: q.ID}
	}
	d.matchActive(q)
	d.seen.Queued = len(d.queue.heap)
	c := d.policy.Choose(q, d.view())
	if !d.workers.has(c.Worker) {
		return dst, d.explainChoice(q, c.Worker)
	}
	p := Placement{Request: q, Worker: c.Worker, Cost: c.Cost, Second: c.Second, SecondCost: c.SecondCost}
	if d.needs.Overlap || d.tells {
		p.Overlap = d.overlap.On(c.Worker)
		p.Blocks = int32((int64(q.InputTokens) + d.blockTokens - 1) / d.blockTokens)
	}
	d.overlap.clear()
	d.active.clear()
	p.Believed = p.Overlap
	if d.needs.Believes {
		p.Believed = c.Cached
	}
	d.addLoad(q, c.Worker, p.Believed)
	return append(dst, p), nil
}

// explainChoice returns the error of a policy that has chosen no registered worker.
func (d *Dispatcher) explainChoice(q *sim.Request, w sim.WorkerID) error {
	if p, ok := d.policy.(Fallible); ok {
		if err := p.Err(); err != nil {
			return err
		}
	}
	return &ChoiceError{Request: q.ID, Worker: w}
}

// addLoad adds the load of a request to its worker.
func (d *Dispatcher) addLoad(q *sim.Request, w sim.WorkerID, overlap int32) {
	var i int32
	if k := len(d.vacant); k > 0 {
		i, d.vacant = d.vacant[k-1], d.vacant[:k-1]
	} else {
		i = int32(len(d.records))
		d.records = append(d.records, record{})
	}
	d.record.Set(int(q.ID), i+1)
	d.records[i] = record{request: q, worker: w}
	if d.kept.Tokens {
		prompt := int64(q.InputTokens)
		if charge := prompt - min(int64(overlap)*d.blockTokens, prompt); charge > 0 {
			d.records[i].charge = charge
			d.changeTokens(w, charge)
		}
	}
	if d.lateLoads != nil {
		d.noteLoad(isPlaced, &d.records[i], d.records[i].charge)
		return
	}
	d.showPlaced(w, q)
}

// endPrefill removes the prompt tokens of a record from its worker.
func (d *Dispatcher) endPrefill(i int32) {
	if x := &d.records[i]; x.charge > 0 {
		d.changeTokens(x.worker, -x.charge)
		if d.lateLoads != nil {
			d.noteLoad(isComputed, x, x.charge)
		}
		x.charge = 0
	}
}

// removeLoad removes the load of a record from its worker.
func (d *Dispatcher) removeLoad(i int32) {
	d.endPrefill(i)
	q, w := d.records[i].request, d.records[i].worker
	if d.lateLoads != nil {
		d.noteLoad(hasLeft, &d.records[i], 0)
	} else {
		d.showLeft(w, q)
	}
	d.record.Set(int(q.ID), 0)
	d.records[i] = record{}
	d.vacant = append(d.vacant, i)
}

// PrefillDone removes the prompt tokens of the request from its worker.
func (d *Dispatcher) PrefillDone(now sim.Time, id sim.RequestID, dst []Placement) ([]Placement, error) {
	if d.blind {
		return dst, nil
	}
	if err := d.setClock(now); err != nil {
		return dst, err
	}
	i, ok := d.findRecord(id)
	if !ok {
		return dst, &RequestError{Request: id, Worker: None}
	}
	d.endPrefill(i)
	return d.placeWaiting(now, dst)
}

// ComesComputed removes the prompt tokens of a placed request from its worker, because its KV cache comes from
// another worker. ComesComputed places no request.
func (d *Dispatcher) ComesComputed(id sim.RequestID) {
	if i, ok := d.findRecord(id); ok {
		d.endPrefill(i)
	}
}

// Finished removes the load of the request from its worker.
func (d *Dispatcher) Finished(now sim.Time, id sim.RequestID, dst []Placement) ([]Placement, error) {
	if d.blind {
		return dst, nil
	}
	if err := d.setClock(now); err != nil {
		return dst, err
	}
	if i, ok := d.findRecord(id); ok {
		d.removeLoad(i)
	}
	return d.placeWaiting(now, dst)
}

// findRecord returns the record of a placed request.
func (d *Dispatcher) findRecord(id sim.RequestID) (int32, bool) {
	at := d.record.Get(int(id))
	return at - 1, at > 0
}

// Withdraw removes a held request. Withdraw reports false if the request is not held.
func (d *Dispatcher) Withdraw(id sim.RequestID) bool {
	if d.record.Get(int(id)) != isHeld {
		return false
	}
	d.queue.remove(id)
	d.admissionQueue.remove(id)
	d.record.Set(int(id), 0)
	return true
}
