package loadgen

import (
	"slices"
	"strconv"
)

// Recycle returns a workload in which the sessions of w are repeated in several rounds, at least 2. Recycle is used
// for a closed loop that repeats the workload when it runs out of requests.
//
// Blocks that several sessions share keep their ids in all rounds. Blocks of a single session have new ids in each
// round, so that each round finds the same cached blocks as a new session.
//
// If w has no named sessions, prompts that extend each other are treated as one conversation. Blocks before a branch
// of the prompts are shared.
func Recycle(w *Workload, rounds int) *Workload {
	own := *w
	own.Rounds = rounds
	r := recycler{from: w, to: &own, shared: sharedBlocks(w)}
	own.Sessions = append(make([]Session, 0, rounds*len(w.Sessions)), w.Sessions...)
	own.Turns = append(make([]Turn, 0, rounds*len(w.Turns)), w.Turns...)
	own.Priorities = repeatList(w.Priorities, rounds)
	own.ClassesOf = repeatList(w.ClassesOf, rounds)
	for round := 2; round <= rounds; round++ {
		r.addRound(round)
	}
	if w.Graph != nil {
		own.Graph = w.Graph.repeat(rounds)
	}
	return &own
}

// RoundOf returns the round of a session, starting at 1. RoundOf returns 0 if the workload is not recycled.
func (w *Workload) RoundOf(session int32) int {
	if w.Rounds == 0 {
		return 0
	}
	return 1 + int(session)/(len(w.Sessions)/w.Rounds)
}

// recycler adds rounds to a workload.
type recycler struct {
	from, to *Workload
	shared   map[uint64]bool // for each block, whether it has the same id in all rounds
	next     uint64          // lower bound for unused ids
}

// sharedBlocks reports for each block of a workload whether it has the same id in all rounds.
func sharedBlocks(w *Workload) map[uint64]bool {
	if w.Synthetic { // prompts share no blocks and have no ids
		return nil
	}
	if w.MultiTurn() || w.Graph != nil || slices.ContainsFunc(w.Sessions, func(s Session) bool { return !s.Automatic }) {
		return sharedBySessions(w)
	}
	return sharedByBranches(w)
}

// sharedBySessions reports for each block whether several sessions contain it.
func sharedBySessions(w *Workload) map[uint64]bool {
	shared, owner := map[uint64]bool{}, map[uint64]int32{}
	for i := range w.Turns {
		t := &w.Turns[i]
		for _, id := range t.IDs {
			if first, known := owner[id]; !known {
				owner[id] = t.Session
				shared[id] = false
			} else if first != t.Session {
				shared[id] = true
			}
		}
	}
	return shared
}

// branch is a block in a tree of prompts.
type branch struct {
	id      uint64
	from    int32 // the parent branch, -1: none
	follow  int32 // number of child branches
	divides bool  // the prompts differ after this branch
}

// sharedByBranches reports for each block whether prompts differ after it. The last block of a prompt is not shared
// if it is not full.
func sharedByBranches(w *Workload) map[uint64]bool {
	type edge struct {
		from int32
		id   uint64
	}
	var all []branch
	places, shared := map[edge]int32{}, map[uint64]bool{}
	for i := range w.Turns {
		t := &w.Turns[i]
		at, full := int32(-1), int(t.Input)/w.TraceBlock
		for k, id := range t.IDs {
			shared[id] = false
			if k >= full {
				continue
			}
			next, known := places[edge{at, id}]
			if !known {
				next = int32(len(all))
				places[edge{at, id}] = next
				all = append(all, branch{id: id, from: at})
				if at >= 0 {
					all[at].follow++
				}
			}
			at = next
		}
	}
	for i := len(all) - 1; i >= 0; i-- { // children have higher indices
		b := &all[i]
		if b.divides = b.divides || b.follow > 1; b.divides {
			shared[b.id] = true
			if b.from >= 0 {
				all[b.from].divides = true
			}
		}
	}
	return shared
}

// addRound adds a round with all sessions.
func (r *recycler) addRound(round int) {
	sessions, turns := int32(len(r.to.Sessions)), int32(len(r.to.Turns))
	renewed := map[uint64]uint64{}
	for i := range r.from.Sessions {
		s := r.from.Sessions[i]
		s.ID, s.Automatic = r.from.SessionID(i)+"#"+strconv.Itoa(round), false
		s.First += turns
		r.to.Sessions = append(r.to.Sessions, s)
	}
	for i := range r.from.Turns {
		t := r.from.Turns[i]
		t.Session += sessions
		if t.Next >= 0 {
			t.Next += turns
		}
		ids := make([]uint64, len(t.IDs))
		for k, id := range t.IDs {
			ids[k] = r.renew(id, renewed)
		}
		t.IDs = ids
		r.to.Turns = append(r.to.Turns, t)
	}
}

// renew returns the id of a block in a round.
func (r *recycler) renew(id uint64, renewed map[uint64]uint64) uint64 {
	if r.shared[id] {
		return id
	}
	now, known := renewed[id]
	if !known {
		for {
			if _, used := r.shared[r.next]; !used {
				break
			}
			r.next++
		}
		now = r.next
		renewed[id] = now
		r.next++
	}
	return now
}

// repeatList returns a list repeated n times. repeatList returns nil for nil.
func repeatList(list []int32, times int) []int32 {
	var all []int32
	for range times {
		all = append(all, list...)
	}
	return all
}

// repeat returns a graph with several rounds. No round waits for another round.
func (g *Graph) repeat(rounds int) *Graph {
	turns, waits := int32(len(g.Arrival)), int32(len(g.Waits))
	all := &Graph{First: []int32{0}}
	for round := range int32(rounds) {
		for _, first := range g.First[1:] {
			all.First = append(all.First, first+round*waits)
		}
		for _, w := range g.Waits {
			w.For += round * turns
			all.Waits = append(all.Waits, w)
		}
		all.Arrival = append(all.Arrival, g.Arrival...)
	}
	return all
}
