package ranks

import (
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// news is a report of a rank at an instant: its load, the number of completed requests, or the start or end of a
// wave.
type news struct {
	at         sim.Time
	turn       turn
	rank       int
	done       int
	counts     vllm.Counts
	wave, pass int
	tells      bool // counts is set
}

// turn orders the events at the same instant. The coordinator acts after each turn.
type turn uint8

const (
	ended   turn = iota // passes end
	planned             // ranks plan
	agreed              // ranks plan that waited for other ranks
)

// frontEnd assigns requests to ranks, like vLLM's API server.
type frontEnd struct {
	rules    Rules
	now      sim.Time // start of the latest pass
	queue    []news   // reports not yet processed, by time
	heard    news     // latest processed report
	seen     []vllm.Counts
	inFlight []int // number of assigned requests of each rank that have not completed
	first    int   // rank that is preferred among ranks with equal scores
	hub      coordinator
}

func newFrontEnd(n int, r Rules) *frontEnd {
	return &frontEnd{rules: r, seen: make([]vllm.Counts, n), inFlight: make([]int, n), hub: newCoordinator(n)}
}

// add adds a report, to be processed at its time.
func (f *frontEnd) add(n news) {
	i := len(f.queue)
	for i > 0 && f.queue[i-1].isAfter(n.at, n.turn) {
		i--
	}
	f.queue = append(f.queue, news{})
	copy(f.queue[i+1:], f.queue[i:])
	f.queue[i] = n
}

// isAfter reports whether n is later than turn t of an instant.
func (n *news) isAfter(at sim.Time, t turn) bool { return n.at > at || n.at == at && n.turn > t }

// hear processes all reports up to an instant.
func (f *frontEnd) hear(now sim.Time) {
	n := 0
	for ; n < len(f.queue) && f.queue[n].at <= now; n++ {
		x := &f.queue[n]
		f.hub.advance(x.at, x.isAfter(f.heard.at, f.heard.turn) && x.at == f.heard.at, f.seen)
		f.heard.at, f.heard.turn = x.at, x.turn
		switch f.inFlight[x.rank] -= x.done; {
		case x.tells:
			f.hub.hear(x)
		case x.done == 0:
			f.hub.listen(x.at)
		}
	}
	f.queue = append(f.queue[:0], f.queue[n:]...)
	f.hub.advance(now, true, f.seen)
}

// Choose returns the rank for r: the rank with the lowest score.
func (f *frontEnd) Choose(r *sim.Request) int {
	f.hear(max(r.Arrived, f.now))
	best, least := 0, 0.0
	for i := range f.seen {
		k := (f.first + i) % len(f.seen)
		if score := f.score(k); i == 0 || score < least {
			best, least = k, score
		}
	}
	f.seen[best].Waiting++
	f.inFlight[best]++
	if f.rules.InFlight {
		f.first = (f.first + 1) % len(f.seen)
	}
	return best
}

// score returns a measure of the load of a rank that the front end knows.
func (f *frontEnd) score(rank int) float64 {
	s := &f.seen[rank]
	if !f.rules.InFlight {
		return float64(4*s.Waiting + s.Running)
	}
	score := float64(max(f.inFlight[rank], s.Waiting+s.Running))
	if s.Waiting > 0 {
		score += float64(float64(s.Waiting)*6) * max(0, s.Usage-0.5)
	}
	return score
}
