package drive

import (
	"cmp"
	"slices"
	"sync"

	"github.com/replay-llm/replay/loadgen"
)

// maxAhead is the maximum size of the bodies that are made before their requests are due, in bytes. Other bodies are
// made when they are due.
const maxAhead = 32 << 20

// ahead makes the bodies of requests before they are due. A long prompt takes several ms, by which its request would
// be late.
type ahead struct {
	make func(turn int32) []byte

	mu    sync.Mutex
	wake  *sync.Cond         // signals that a body may be made, or the end
	made  *sync.Cond         // signals that a body has been made
	soon  []int32            // turns after a turn in flight
	first []int32            // remaining first turns of sessions, in order of arrival
	ready map[int32][]byte   // by turn; nil while the body is being made
	taken map[int32]struct{} // turns that were due before their bodies were made
	held  int                // bytes of the ready bodies
	over  bool
	ended sync.WaitGroup
}

// newAhead starts to make bodies. newAhead returns when maxAhead bytes, or all first bodies, are ready.
func newAhead(w *loadgen.Workload, makeBody func(turn int32) []byte) *ahead {
	a := &ahead{make: makeBody, ready: map[int32][]byte{}, taken: map[int32]struct{}{}}
	a.wake, a.made = sync.NewCond(&a.mu), sync.NewCond(&a.mu)
	order := make([]int, len(w.Sessions))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(w.Sessions[i].Arrival, w.Sessions[j].Arrival) })
	for _, i := range order {
		a.first = append(a.first, w.Sessions[i].First)
	}
	a.ended.Go(a.makeAll)
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.held < maxAhead && len(a.first) > 0 {
		a.made.Wait()
	}
	return a
}

// makeAll makes bodies until close.
func (a *ahead) makeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		for !a.over && (a.held >= maxAhead || len(a.soon)+len(a.first) == 0) {
			a.wake.Wait()
		}
		if a.over {
			return
		}
		next := &a.soon
		if len(a.soon) == 0 {
			next = &a.first
		}
		turn := (*next)[0]
		*next = (*next)[1:]
		if _, late := a.taken[turn]; late {
			delete(a.taken, turn)
			continue
		}
		a.ready[turn] = nil // the body is being made
		a.mu.Unlock()
		body := a.make(turn)
		a.mu.Lock()
		if _, wanted := a.ready[turn]; wanted {
			a.ready[turn] = body
			a.held += len(body)
		}
		a.made.Signal()
	}
}

// expect adds a turn that will be due soon.
func (a *ahead) expect(turn int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.soon = append(a.soon, turn)
	a.wake.Signal()
}

// takeBody returns the body of a turn. takeBody makes the body if it is not ready.
func (a *ahead) takeBody(turn int32) []byte {
	a.mu.Lock()
	body, begun := a.ready[turn]
	delete(a.ready, turn)
	a.held -= len(body)
	if !begun {
		a.taken[turn] = struct{}{}
	}
	a.wake.Signal()
	a.mu.Unlock()
	if body == nil {
		return a.make(turn)
	}
	return body
}

// close stops making bodies.
func (a *ahead) close() {
	a.mu.Lock()
	a.over = true
	a.wake.Signal()
	a.mu.Unlock()
	a.ended.Wait()
}
