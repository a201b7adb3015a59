package offline

import (
	"fmt"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/sim"
)

// links is the network between prefill and decode workers: a link out of each prefill worker,
// one into each decode worker, and a core that all transfers cross (docs/pd.md).
//
// Transfers between the same two workers are alike, so they go in a lane: all at the same speed,
// which is 1 where each has its whole bandwidth. Between two changes of speed everything is
// known in closed form.
type links struct {
	inTurns bool
	nic     float64 // transfers at full speed that a worker's link carries; +Inf: any number
	core    float64 // and the core
	share   float64 // of its bandwidth that every link has

	lanes   []*lane     // with transfers under way, in the order in which they were opened
	waiting []*transfer // in turns: those that have not begun, in order
	spare   []*lane
	changed []*lane   // of the latest answer
	ends    [2][]link // out of prefill workers, into decode workers
	middle  link      // the core

	traffic *traffic
}

// traffic is what has gone between the pools.
type traffic struct {
	local     int     // prompts that decode workers computed
	transfers int     // that have arrived
	tokens    int     // that these carried
	waited    float64 // ms that they took longer than alone
	asked     float64 // ms that they waited for room before
	held      float64 // ms that prefill workers held their blocks, from the end of the prompt on
}

// transfer is a KV cache on its way, or that waits for its turn.
type transfer struct {
	id       sim.RequestID
	from, to sim.WorkerID
	tokens   int
	alone    sim.Time // it takes, with its whole bandwidth
	latency  sim.Time // after that
	asked    sim.Time
	began    sim.Time
	lane     *lane // nil: it waits for its turn, or has left
}

// lane is the transfers under way between two workers; in turns, a single one.
type lane struct {
	from, to sim.WorkerID
	speed    float64
	// Virtual time goes at the lane's speed. A transfer ends when virtual time has come to its
	// begin plus alone. Until the lane is slowed it is the time of the clock.
	slowed bool
	since  sim.Time // the latest change of speed,
	then   sim.Time // and virtual time at that instant
	all    heap.Heap[sim.Time, sim.RequestID, *transfer]

	dirty bool    // another transfer may end first than before
	fair  float64 // the speed that has been worked out
	fixed bool    // while that is done: it is known
}

// link is what is worked out of a link.
type link struct {
	users int     // transfers whose speed is not known
	left  float64 // bandwidth that is left to these, in transfers at full speed
}

// newLinks returns a network whose links carry so many transfers at full speed.
func newLinks(inTurns bool, nic, core float64) *links {
	return &links{inTurns: inTurns, nic: nic, core: core, share: 1, traffic: new(traffic)}
}

// virtual returns the virtual time of l.
func (l *lane) virtual(now sim.Time) sim.Time {
	if !l.slowed {
		return now
	}
	return l.then + sim.Time(float64(now-l.since)*l.speed)
}

// clockTime returns when virtual time comes to an instant.
func (l *lane) clockTime(at, now sim.Time) sim.Time {
	if !l.slowed {
		return at
	}
	return max(now, l.since+sim.Time(float64(at-l.then)/l.speed))
}

// setSpeed changes the speed of l from now on, and reports whether it has changed.
func (l *lane) setSpeed(speed float64, now sim.Time) bool {
	if speed == l.speed {
		return false
	}
	l.then = l.virtual(now)
	l.since, l.slowed, l.speed = now, true, speed
	return true
}

// next returns the transfer of l that ends first, and when, as it looks now.
func (l *lane) next(now sim.Time) (*transfer, sim.Time) {
	first := l.all[0]
	return first.Value, l.clockTime(first.Key, now)
}

// ask takes in a transfer, which begins now or waits for its turn.
func (n *links) ask(t *transfer, now sim.Time) {
	t.asked = now
	if n.inTurns {
		n.waiting = append(n.waiting, t)
		return
	}
	for _, l := range n.lanes {
		if l.from == t.from && l.to == t.to {
			l.push(t, now)
			return
		}
	}
	n.openLane(t, now)
}

// openLane begins a transfer in a lane of its own.
func (n *links) openLane(t *transfer, now sim.Time) {
	l := new(lane)
	if k := len(n.spare); k > 0 {
		l, n.spare = n.spare[k-1], n.spare[:k-1]
	}
	*l = lane{from: t.from, to: t.to, speed: 1, all: l.all[:0]}
	n.lanes = append(n.lanes, l)
	l.push(t, now)
}

func (l *lane) push(t *transfer, now sim.Time) {
	t.lane, t.began = l, now
	l.all.Push(l.virtual(now)+t.alone, t.id, t)
	l.dirty = l.dirty || l.all[0].Value == t
}

// end takes out the transfer that ends first in its lane.
func (n *links) end(t *transfer, now sim.Time) {
	n.traffic.waited += float64(t.began - t.asked)
	if t.lane.slowed {
		n.traffic.waited += float64((now - t.began - t.alone).Max0())
	}
	t.lane.all.Pop()
	n.leave(t)
}

// cancel takes out a transfer wherever it is.
func (n *links) cancel(t *transfer) {
	if t.lane == nil {
		for i, x := range n.waiting {
			if x == t {
				n.waiting = append(n.waiting[:i], n.waiting[i+1:]...)
				return
			}
		}
		return
	}
	t.lane.all.Filter(func(item heap.Item[sim.Time, sim.RequestID, *transfer]) bool { return item.Value != t })
	n.leave(t)
}

// leave closes the lane of a transfer that has left it, if it was the last.
func (n *links) leave(t *transfer) {
	l := t.lane
	t.lane, l.dirty = nil, true
	if len(l.all) > 0 {
		return
	}
	for i, x := range n.lanes {
		if x == l {
			n.lanes = append(n.lanes[:i], n.lanes[i+1:]...)
			break
		}
	}
	n.spare = append(n.spare, l)
}

// updateSpeeds begins transfers whose turn it is, works out all speeds anew, and returns the lanes whose
// first transfer may end at another time than before, until the next call.
func (n *links) updateSpeeds(now sim.Time) []*lane {
	n.countUsers()
	if n.inTurns {
		n.beginTurns(now)
	} else {
		n.fillFairly()
	}
	n.changed = n.changed[:0]
	for _, l := range n.lanes {
		if l.setSpeed(l.fair, now) || l.dirty {
			l.dirty = false
			n.changed = append(n.changed, l)
		}
	}
	return n.changed
}

// countUsers gives every link that somebody crosses or waits for all of its bandwidth, and counts
// the transfers on it.
func (n *links) countUsers() {
	n.middle = link{left: n.core}
	for _, t := range n.waiting {
		ends := n.linksOf(t.from, t.to)
		*ends[0], *ends[1] = link{left: n.nic}, link{left: n.nic}
	}
	for _, l := range n.lanes {
		ends := n.linksOf(l.from, l.to)
		*ends[0], *ends[1] = link{left: n.nic}, link{left: n.nic}
		l.fair, l.fixed = n.share, false
	}
	for _, l := range n.lanes {
		for _, x := range n.linksOf(l.from, l.to) {
			x.users += len(l.all)
		}
	}
}

// fillFairly gives all transfers as much as the tightest link lets them have, then those that
// do not cross it more, and so on.
func (n *links) fillFairly() {
	for {
		var tight *link
		level := 1.0
		for _, l := range n.lanes {
			if l.fixed {
				continue
			}
			for _, x := range n.linksOf(l.from, l.to) {
				if fair := x.left / float64(x.users); fair < level {
					tight, level = x, fair
				}
			}
		}
		if tight == nil {
			break
		}
		for _, l := range n.lanes {
			if l.fixed || !n.crosses(l, tight) {
				continue
			}
			l.fair, l.fixed = float64(level*n.share), true
			for _, x := range n.linksOf(l.from, l.to) {
				x.users -= len(l.all)
				x.left = max(0, x.left-float64(level*float64(len(l.all))))
			}
		}
	}
	n.checkShares()
}

// crosses reports whether the transfers of l cross a link.
func (n *links) crosses(l *lane, x *link) bool {
	all := n.linksOf(l.from, l.to)
	return x == all[0] || x == all[1] || x == all[2]
}

// beginTurns begins the transfers for which there is room, in order. One that has to wait for a
// worker keeps those behind it from the two that it needs.
func (n *links) beginTurns(now sim.Time) {
	kept := n.waiting[:0]
	for _, t := range n.waiting {
		ends := n.linksOf(t.from, t.to)
		if !ends[0].hasRoom() || !ends[1].hasRoom() || !ends[2].hasRoom() {
			ends[0].left, ends[1].left = 0, 0
			kept = append(kept, t)
			continue
		}
		for _, x := range ends {
			x.users++
		}
		n.openLane(t, now)
		n.lanes[len(n.lanes)-1].fair = n.share
	}
	clear(n.waiting[len(kept):])
	n.waiting = kept
}

// hasRoom reports whether a link carries one more transfer at full speed.
func (x *link) hasRoom() bool { return float64(x.users+1) <= x.left }

// linksOf returns the links between two workers: out of one, into the other, and the core.
func (n *links) linksOf(from, to sim.WorkerID) [3]*link {
	for len(n.ends[0]) <= int(from) {
		n.ends[0] = append(n.ends[0], link{})
	}
	for len(n.ends[1]) <= int(to) {
		n.ends[1] = append(n.ends[1], link{})
	}
	return [3]*link{&n.ends[0][from], &n.ends[1][to], &n.middle}
}

// checkShares panics where a link carries more than its bandwidth.
func (n *links) checkShares() {
	if !invariant.Enabled {
		return
	}
	var out, in map[sim.WorkerID]float64
	out, in = map[sim.WorkerID]float64{}, map[sim.WorkerID]float64{}
	core := 0.0
	for _, l := range n.lanes {
		used := float64(l.fair * float64(len(l.all)))
		out[l.from] += used
		in[l.to] += used
		core += used
	}
	const rounding = 1e-9
	if core > float64(n.core*n.share)+rounding {
		panic(fmt.Sprintf("links: transfers use %v of the core's %v", core, float64(n.core*n.share)))
	}
	for i, side := range []map[sim.WorkerID]float64{out, in} {
		for w, used := range side {
			if used > float64(n.nic*n.share)+rounding {
				panic(fmt.Sprintf("links: transfers use %v of %v on side %d of worker %d", used, float64(n.nic*n.share), i, w))
			}
		}
	}
}
