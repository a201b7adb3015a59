package vllm_test

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler/vllm"
)

// sortWaiting moves the most urgent requests to the front, with priorities.
func (t *twin) sortWaiting() {
	if t.cfg.Scheduling == vllm.ByPriority {
		slices.SortFunc(t.waiting, func(a, b *twinRequest) int { return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.number-b.number) })
	}
}

// planRunning plans the missing tokens of running requests, in order of admission.
func (t *twin) planRunning(f *twinFlight) {
	for i := 0; i < len(t.running) && f.budget > 0; i++ {
		r := t.running[i]
		if t.endsInFlight(r) || f.shut && r.midway {
			continue
		}
		want := t.cut(r.target-r.computed+r.drafts, f.budget-t.slots())
		if longest := t.cfg.MaxLength; longest > 0 && t.cfg.Speculation != nil {
			want = min(want, longest-1-r.computed)
		}
		if want <= 0 {
			continue
		}
		t.dropPassed(r)
		if want == 1 && r.computed%t.cfg.BlockTokens != 0 && t.rules.WholeAllocation && t.cfg.Speculation == nil {
			// A block of a prompt, or one computed again, is named when it is planned. With two passes in flight,
			// this also applies to a block completed by a token with a known value.
			if r.computed < r.InputTokens || r.midway || t.rules.TwoInFlight && r.known() > r.computed {
				t.name(r, r.computed+1)
			}
			t.schedule(f, r, 1)
			continue
		}
		left := 0
		for !t.cover(r, r.computed+want) {
			shares := len(f.shares)
			if t.preempt(f) == r {
				if !t.rules.PastSelf {
					return
				}
				break
			}
			if at := slices.Index(t.running, r); at < i {
				i = at
				if len(f.shares) == shares && t.cfg.Scheduling == vllm.ByPriority && !t.rules.KeepNext {
					left++
				}
			}
		}
		if !slices.Contains(t.running, r) {
			i--
			continue
		}
		t.schedule(f, r, want)
		i += left
	}
}

// preempt preempts a running request.
func (t *twin) preempt(f *twinFlight) *twinRequest {
	i := len(t.running) - 1
	switch {
	case t.cfg.Scheduling == vllm.ByPriority: // order: greatest priority value, then latest arrival, then first in the list
		i = 0
		for k, r := range t.running {
			if v := t.running[i]; r.Priority > v.Priority || r.Priority == v.Priority && r.Arrived > v.Arrived {
				i = k
			}
		}
	case !t.rules.LastVictim && t.cfg.Preemption == vllm.FIFO:
		i = 0
	}
	r := t.running[i]
	if r.flight == f {
		at := slices.IndexFunc(f.shares, func(x *twinShare) bool { return x.r == r })
		x := f.shares[at]
		f.shares = slices.Delete(f.shares, at, at+1)
		f.budget += x.tokens + t.slots()
		r.computed -= x.tokens
		if x.samples {
			r.target -= 1 + x.drafts
		}
		r.flight = nil
	}
	t.running = slices.Delete(t.running, i, i+1)
	if t.namesAtEnd() {
		t.name(r, r.computed-(r.target-r.known())) // the tokens in flight are excluded
	}
	t.release(r)
	r.computed, r.drafts, r.preempted = 0, 0, true
	f.gone = append(f.gone, r.ID)
	t.waiting = slices.Insert(t.waiting, 0, r)
	t.sortWaiting()
	f.lost++
	return r
}

func (t *twin) release(r *twinRequest) {
	for _, group := range r.held {
		for _, b := range slices.Backward(group) {
			t.pool.dropHolder(b)
		}
	}
	r.held, r.named = nil, 0
}

// isShut reports whether the next pass computes no prompts.
func (t *twin) isShut() bool {
	return t.prompts > 0 && !t.left && t.worked+1-t.prompts < t.cfg.PrefillInterval &&
		slices.ContainsFunc(t.running, func(r *twinRequest) bool { return !r.midway })
}

// closePlan updates the state after the plan of a pass.
func (t *twin) closePlan(f *twinFlight) {
	if len(f.shares) > 0 {
		t.worked++
	}
	if f.prefills {
		t.prompts = t.worked
	}
	if !f.shut && f.lost == 0 {
		t.left = len(t.waiting) > 0
	}
}
