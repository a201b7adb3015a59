// Package links models the network between the prefill and decode workers of a replay. The package computes the
// duration of transfers of KV caches that share links.
package links

import (
	"fmt"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/sim"
)

// Network is a set of links: a link out of each prefill worker, a link into each decode worker, and a core that all
// transfers cross (docs/pd.md).
//
// Transfers between the same two workers form a lane. All transfers of a lane have the same speed, and speed 1 is
// full bandwidth. Between two changes of speed, all times have a closed form.
type Network struct {
	inTurns bool
	nic     float64 // number of full-speed transfers that a worker's link carries; +Inf: unlimited
	core    float64 // number of full-speed transfers that the core carries
	share   float64 // available share of the bandwidth of every link

	lanes   []*Lane     // lanes with transfers in progress, in order of opening
	waiting []*Transfer // in turns: transfers that have not begun, in order
	spare   []*Lane
	changed []*Lane   // scratch: the latest result of UpdateSpeeds
	ends    [2][]link // links out of prefill workers, and into decode workers
	middle  link      // the core
	waited  float64   // ms that ended transfers waited or were slowed
}

// Transfer is the transfer of a KV cache, in progress or waiting.
type Transfer struct {
	ID       sim.RequestID
	From, To sim.WorkerID
	Tokens   int
	Alone    sim.Time // duration at full bandwidth
	Latency  sim.Time // added to the duration

	asked sim.Time
	began sim.Time
	lane  *Lane // nil: it waits for its turn, or has left the links
}

// Lane is the transfers in progress between two workers; in turns, a single transfer.
type Lane struct {
	from, to sim.WorkerID
	speed    float64
	// Virtual time advances at the lane's speed. A transfer ends when virtual time reaches its begin plus Alone.
	// Until the lane is slowed, virtual time is clock time.
	slowed bool
	since  sim.Time // instant of the latest change of speed
	then   sim.Time // virtual time at that instant
	all    heap.Heap[sim.Time, sim.RequestID, *Transfer]

	dirty bool    // the first transfer, or the time of its end, has changed
	fair  float64 // the computed speed
	fixed bool    // during the computation: fair is final
}

// link is the state of a link while speeds are computed.
type link struct {
	users int     // transfers without a computed speed
	left  float64 // remaining bandwidth for these, in full-speed transfers
}

// New returns a network. The link of a worker carries nic transfers at full speed, and the core carries core
// transfers.
func New(inTurns bool, nic, core float64) *Network {
	return &Network{inTurns: inTurns, nic: nic, core: core, share: 1}
}

// virtual returns the virtual time of l at the clock time now.
func (l *Lane) virtual(now sim.Time) sim.Time {
	if !l.slowed {
		return now
	}
	return l.then + sim.Time(float64(now-l.since)*l.speed)
}

// clockTime returns the clock time at which virtual time reaches at.
func (l *Lane) clockTime(at, now sim.Time) sim.Time {
	if !l.slowed {
		return at
	}
	return max(now, l.since+sim.Time(float64(at-l.then)/l.speed))
}

// setSpeed sets the speed of l from now on, and reports whether it has changed.
func (l *Lane) setSpeed(speed float64, now sim.Time) bool {
	if speed == l.speed {
		return false
	}
	l.then = l.virtual(now)
	l.since, l.slowed, l.speed = now, true, speed
	return true
}

// Next returns the transfer of l that ends first, and its end at the current speed.
func (l *Lane) Next(now sim.Time) (*Transfer, sim.Time) {
	first := l.all[0]
	return first.Value, l.clockTime(first.Key, now)
}

// Waited returns the ms by which ended transfers were slower than alone.
func (n *Network) Waited() float64 { return n.waited }

// IsIdle reports whether no transfer waits or is in progress.
func (n *Network) IsIdle() bool { return len(n.lanes)+len(n.waiting) == 0 }

// SetShare sets the available share of the bandwidth of every link; 0 means all of it.
func (n *Network) SetShare(share float64) {
	if n.share = share; share == 0 {
		n.share = 1
	}
}

// Sends reports whether t is in progress on its links.
func (t *Transfer) Sends() bool { return t.lane != nil }

// HasEnded reports whether t, which is in progress, is the first to end in its lane and ends by now.
func (t *Transfer) HasEnded(now sim.Time) bool {
	first, at := t.lane.Next(now)
	return first == t && at <= now
}

// WasAlone reports whether t, which is in progress, began at the instant began and has had full bandwidth since.
func (t *Transfer) WasAlone(began sim.Time) bool { return !t.lane.slowed && t.began == began }

// Ask adds a transfer, which begins now or waits for its turn.
func (n *Network) Ask(t *Transfer, now sim.Time) {
	t.asked = now
	if n.inTurns {
		n.waiting = append(n.waiting, t)
		return
	}
	for _, l := range n.lanes {
		if l.from == t.From && l.to == t.To {
			l.push(t, now)
			return
		}
	}
	n.openLane(t, now)
}

// openLane begins a transfer in a new lane.
func (n *Network) openLane(t *Transfer, now sim.Time) {
	l := new(Lane)
	if k := len(n.spare); k > 0 {
		l, n.spare = n.spare[k-1], n.spare[:k-1]
	}
	*l = Lane{from: t.From, to: t.To, speed: 1, all: l.all[:0]}
	n.lanes = append(n.lanes, l)
	l.push(t, now)
}

func (l *Lane) push(t *Transfer, now sim.Time) {
	t.lane, t.began = l, now
	l.all.Push(l.virtual(now)+t.Alone, t.ID, t)
	l.dirty = l.dirty || l.all[0].Value == t
}

// End removes the transfer that ends first in its lane.
func (n *Network) End(t *Transfer, now sim.Time) {
	n.waited += float64(t.began - t.asked)
	if t.lane.slowed {
		n.waited += float64((now - t.began - t.Alone).Max0())
	}
	t.lane.all.Pop()
	n.leave(t)
}

// Cancel removes a transfer that waits or is in progress.
func (n *Network) Cancel(t *Transfer) {
	if t.lane == nil {
		for i, x := range n.waiting {
			if x == t {
				n.waiting = append(n.waiting[:i], n.waiting[i+1:]...)
				return
			}
		}
		return
	}
	t.lane.all.Filter(func(item heap.Item[sim.Time, sim.RequestID, *Transfer]) bool { return item.Value != t })
	n.leave(t)
}

// leave detaches a transfer from its lane, and closes the lane if it is empty.
func (n *Network) leave(t *Transfer) {
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

// UpdateSpeeds begins transfers that may begin and computes all speeds. UpdateSpeeds returns the lanes with a new end
// of their first transfer. The result is valid until the next call.
func (n *Network) UpdateSpeeds(now sim.Time) []*Lane {
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

// countUsers resets every link with transfers to its full bandwidth, and counts the transfers in progress on it.
func (n *Network) countUsers() {
	n.middle = link{left: n.core}
	for _, t := range n.waiting {
		ends := n.linksOf(t.From, t.To)
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

// fillFairly computes max-min fair speeds. fillFairly gives the transfers on the tightest link an equal share of it,
// then continues with the transfers on the other links.
func (n *Network) fillFairly() {
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
func (n *Network) crosses(l *Lane, x *link) bool {
	all := n.linksOf(l.from, l.to)
	return x == all[0] || x == all[1] || x == all[2]
}

// beginTurns begins the waiting transfers for which there is room, in order. A transfer that must wait blocks its two
// worker links for the transfers behind it.
func (n *Network) beginTurns(now sim.Time) {
	kept := n.waiting[:0]
	for _, t := range n.waiting {
		ends := n.linksOf(t.From, t.To)
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

// hasRoom reports whether a link can carry one more transfer at full speed.
func (x *link) hasRoom() bool { return float64(x.users+1) <= x.left }

// linksOf returns the links between two workers: out of from, into to, and the core.
func (n *Network) linksOf(from, to sim.WorkerID) [3]*link {
	for len(n.ends[0]) <= int(from) {
		n.ends[0] = append(n.ends[0], link{})
	}
	for len(n.ends[1]) <= int(to) {
		n.ends[1] = append(n.ends[1], link{})
	}
	return [3]*link{&n.ends[0][from], &n.ends[1][to], &n.middle}
}

// checkShares panics if a link carries more than its bandwidth.
func (n *Network) checkShares() {
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
