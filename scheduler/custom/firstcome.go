package custom

// FirstCome is an Engine that plans like vLLM with one pass in flight (docs/rules/vllm.md). Running requests
// continue. Waiting requests are admitted in order while the token budget, MaxSeqs and free KV blocks suffice for all
// their tokens. If blocks run out, the last request of Plan.Running is preempted.
//
// To use another order, an engine can reorder Plan.Waiting or Plan.Running and then call FirstCome. The last request
// of Plan.Running is preempted first.
type FirstCome struct{ Options }

// Plan plans one pass.
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

// planRunning plans the tokens of running requests. planRunning returns the number of requests that still run and the
// remaining token budget. planRunning also reports whether no request was preempted.
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

// compute plans up to left tokens of r within the budget, and returns the number of planned tokens.
func (e *FirstCome) compute(p *Plan, r *Request, left, budget int) int {
	n := e.cut(left, budget)
	p.Compute(r.ID, n)
	return n
}

// cut returns the number of tokens, limited to the budget of the pass.
func (e *FirstCome) cut(tokens, budget int) int {
	if e.MaxBatchedTokens == 0 {
		return tokens
	}
	return min(tokens, budget)
}
