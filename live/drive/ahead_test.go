package drive

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// Each returned body belongs to its turn, for any order of due turns. The bodies of first turns are made in advance.
func TestBodiesAreMadeAhead(t *testing.T) {
	const sessions = 200
	w := &loadgen.Workload{}
	for i := range sessions {
		w.Sessions = append(w.Sessions, loadgen.Session{First: int32(2 * i), Turns: 2, Arrival: sim.Time(sessions - i)})
	}
	var made atomic.Int32
	a := newAhead(w, func(turn int32) []byte {
		made.Add(1)
		return []byte(strconv.Itoa(int(turn)))
	})
	if n := made.Load(); n != sessions {
		t.Errorf("%d bodies before the first is due, want %d", n, sessions)
	}
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(sessions) {
		for turn := int32(2 * i); turn < int32(2*i+2); turn++ {
			if body := string(a.takeBody(turn)); body != strconv.Itoa(int(turn)) {
				t.Errorf("%s, want the body of turn %d", body, turn)
			}
			if turn%2 == 0 {
				a.expect(turn + 1)
			}
		}
	}
	a.close()
	if a.held != 0 || made.Load() > 3*sessions {
		t.Errorf("%d bytes held, %d made", a.held, made.Load())
	}
}

// At most maxAhead bytes are made in advance. The remaining bodies are made when they are due.
func TestBodiesAheadAreBounded(t *testing.T) {
	w := &loadgen.Workload{}
	for i := range 10 {
		w.Sessions = append(w.Sessions, loadgen.Session{First: int32(i), Turns: 1, Arrival: sim.Time(i)})
	}
	a := newAhead(w, func(int32) []byte { return make([]byte, maxAhead/2) })
	defer a.close()
	a.mu.Lock()
	held, left := a.held, len(a.first)
	a.mu.Unlock()
	if held != maxAhead || left != 8 {
		t.Errorf("%d bytes held, %d bodies left, want %d and 8", held, left, maxAhead)
	}
	if body := a.takeBody(9); len(body) != maxAhead/2 {
		t.Errorf("%d bytes, want those of the last, which was not made yet", len(body))
	}
}
