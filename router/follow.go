package router

import "github.com/replay-llm/replay/sim"

// AddAdmission adds the needs of an Admission to the needs of a policy.
func (n *Needs) AddAdmission(a Admission) {
	if a != nil {
		n.addAdmission(a.Needs())
	}
}

// addLater adds the needs of a later policy.
func (n *Needs) addLater(o Needs) {
	n.Running, n.Tokens = n.Running || o.Running, n.Tokens || o.Tokens
	n.Blocks, n.Shared = n.Blocks || o.Blocks, n.Shared || o.Shared
	n.Overlap, n.Metrics = n.Overlap || o.Overlap, n.Metrics || o.Metrics
}

// setPolicy sets the policy, and the Admission before it; nil: none.
func (d *Dispatcher) setPolicy(p Policy, a Admission) {
	d.policy, d.admission, d.needs = p, a, p.Needs()
	d.needs.AddAdmission(a)
}

// view returns the facts that the policy needs. All other facts are 0.
func (d *Dispatcher) view() *Candidates {
	n, k := &d.needs, &d.kept
	if n.Tokens == k.Tokens && n.Blocks == k.Blocks && n.Shared == k.Shared {
		return &d.seen
	}
	d.zeros, d.zeros32 = growSlice(d.zeros, d.workers.known), growSlice(d.zeros32, d.workers.known)
	v := &d.shown
	*v = d.seen
	v.ladder = nil
	if !n.Tokens {
		v.Tokens = d.zeros
	}
	if !n.Blocks {
		v.Blocks = d.zeros
	}
	if !n.Shared {
		v.Active = d.zeros32
	}
	return v
}

// Release removes all held requests and returns them in the order in which they would be placed.
func (d *Dispatcher) Release() []sim.RequestID {
	held := d.Waiting(nil)
	for _, id := range held {
		d.Withdraw(id)
	}
	return held
}

// Follow replaces the policy and the Admission. The dispatcher must have been made for the new policy
// (Options.Later). The new policy has the workers, their cached blocks and their requests, as counted under the old
// policy. No request may be held.
func (d *Dispatcher) Follow(now sim.Time, p Policy, a Admission) {
	d.setPolicy(p, a)
	d.makeLadder()
	d.seen.ages = makeAges(d.signals, d.needs.Gate != nil)
	d.fair, d.meters.next, d.busy = fairness{}, now, 0
	for _, w := range d.workers.ids {
		if d.isBusy(w) {
			d.busy++
		}
	}
}
