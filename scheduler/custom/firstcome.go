package custom

// FirstCome is an Engine that plans as vLLM with one pass in flight (docs/rules/vllm.md). Running requests continue.
// Waiting ones are admitted from the head of the line while tokens, seats and KV blocks suffice for all their tokens.
// When blocks run out, the request admitted last is preempted.
//
// An engine that wants another order puts Plan.Waiting, or Plan.Running, into that order and leaves the rest to
// FirstCome: the last of Running loses its place first.
type FirstCome struct{ Options }

// Plan plans a pass.
func (e *FirstCome) Plan(p *Plan) {
	running, budget, ok := e.planRunning(p)
	if !ok {
		return // no request is admitted in a pass that preempts
	}
	for _, r := range p.Waiting {
		left := r.Left() - p.Cached(r.ID)
		switch {
		case e.MaxSeqs > 0 && running >= e.MaxSeqs, budget == 0 && e.MaxBatchedTokens > 0:
			return
		case e.MaxBatchedTokens > 0 && left > budget && !e.ChunkedPrefill, !p.Fits(r.ID, left):
			return
		}
		running++
		budget -= e.compute(p, r, left, budget)
	}
}

// planRunning gives the requests that run their tokens. It returns how many run, and how many tokens are left for
// other requests, and reports whether all have kept their places.
func (e *FirstCome) planRunning(p *Plan) (count, budget int, ok bool) {
	running := p.Running
	budget = e.MaxBatchedTokens
	for i := 0; i < len(running) && (budget > 0 || e.MaxBatchedTokens == 0); i++ {
		r := running[i]
		for !p.Fits(r.ID, e.cut(r.Left(), budget)) {
			last := len(running) - 1
			p.Preempt(running[last].ID)
			running = running[:last]
			if i == last {
				return last, 0, false
			}
		}
		budget -= e.compute(p, r, r.Left(), budget)
	}
	return len(running), budget, len(running) == len(p.Running)
}

// compute gives r tokens that are left of it, as far as the budget goes, and returns how many.
func (e *FirstCome) compute(p *Plan, r *Request, left, budget int) int {
	n := e.cut(left, budget)
	p.Compute(r.ID, n)
	return n
}

// cut returns n tokens, cut to what a pass may still compute.
func (e *FirstCome) cut(tokens, budget int) int {
	if e.MaxBatchedTokens == 0 {
		return tokens
	}
	return min(tokens, budget)
}
