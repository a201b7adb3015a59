package loadgen

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/sim"
)

// Synthetic describes a synthetic workload without a trace file.
type Synthetic struct {
	Requests int // number of requests, or of sessions; at least 1
	Input    int // prompt tokens of every request, at least 1
	Output   int // answer tokens of every request, at least 1
	// Interval is the time between first arrivals, finite and >= 0.
	Interval sim.Time
	// Turns is the number of turns of a session. 0 and 1 mean one turn. With sessions (see Sessional), 0 is invalid.
	Turns int
	// Delay is the time from the completion of a turn to the next turn, finite and >= 0.
	Delay sim.Time
	// SharedRatio is the share of a prompt's blocks that its group shares, 0 to 1.
	SharedRatio float64
	// Groups is the number of groups of sessions with a common prefix. 0 means that no prefix is shared.
	Groups int
	// Block is the number of tokens of an engine block and of a hash id, > 0.
	Block int
	// Seed is the seed for assigning sessions to groups.
	Seed uint64
	// Compat uses the same blocks for all groups, like the reference.
	Compat bool
}

// Sessional reports whether the workload has sessions, so that prompts can share blocks and sessions can have several
// turns.
func (r *Synthetic) Sessional() bool {
	return r.Turns > 1 || r.SharedRatio > 0 || r.Groups > 0 || r.Delay > 0
}

// NewSynthetic returns the described workload.
func NewSynthetic(r Synthetic) (*Workload, error) {
	if err := r.checkRecipe(); err != nil {
		return nil, err
	}
	if r.Sessional() {
		return r.makeSessions(), nil
	}
	return r.makePlain(), nil
}

const (
	maxTurns = math.MaxInt32
	maxIDs   = 1 << 28 // maximum number of hash ids of all generated prompts: 2 GiB
)

func (r *Synthetic) checkRecipe() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"input tokens", r.Input}, {"output tokens", r.Output}, {"requests", r.Requests}} {
		if f.value < 1 || f.value > math.MaxInt32 {
			return fmt.Errorf("%s are %d, must be 1 to %d", f.name, f.value, math.MaxInt32)
		}
	}
	if !isFinite(r.Interval) || r.Interval < 0 {
		return fmt.Errorf("arrival interval is %v ms, must be finite and >= 0", float64(r.Interval))
	}
	if !isFinite(sim.Time(float64(r.Requests-1) * float64(r.Interval))) {
		return fmt.Errorf("arrival interval is %v ms, so that the arrival of request %d is not a finite number", float64(r.Interval), r.Requests)
	}
	if r.Sessional() {
		return r.checkSessions()
	}
	return nil
}

func (r *Synthetic) checkSessions() error {
	if r.Turns < 1 {
		return fmt.Errorf("turns per session are %d, must be at least 1", r.Turns)
	}
	if !isFinite(r.Delay) || r.Delay < 0 {
		return fmt.Errorf("inter-turn delay is %v ms, must be finite and >= 0", float64(r.Delay))
	}
	if err := CheckRatio(r.SharedRatio); err != nil {
		return err
	}
	if r.Groups < 0 || r.Groups > math.MaxInt32 {
		return fmt.Errorf("prefix groups are %d, must be 0 to %d", r.Groups, math.MaxInt32)
	}
	if r.Interval > 0 && !isFinite(1000/r.Interval) {
		return fmt.Errorf("arrival interval is %v ms, so small that the rate is no number", float64(r.Interval))
	}
	if r.Block < 1 {
		return fmt.Errorf("block size is %d tokens, must be at least 1", r.Block)
	}
	if r.Turns > maxTurns/r.Requests {
		return fmt.Errorf("%d sessions of %d turns, must be at most %d turns in all", r.Requests, r.Turns, maxTurns)
	}
	if blocks := r.blocksPerPrompt(); blocks > maxIDs/r.Requests/r.Turns {
		return fmt.Errorf("%d prompts of %d blocks, must be at most %d blocks in all", r.Requests*r.Turns, blocks, maxIDs)
	}
	return nil
}

func (r *Synthetic) blocksPerPrompt() int { return (r.Input-1)/r.Block + 1 }

const syntheticName = "synthetic workload"

// makePlain returns a workload with requests that share nothing.
func (r *Synthetic) makePlain() *Workload {
	w := &Workload{
		Name: syntheticName, Synthetic: true, SessionPrefix: syntheticPrefix,
		Sessions: make([]Session, r.Requests), Turns: make([]Turn, r.Requests),
	}
	for i := range w.Sessions {
		at := sim.Time(float64(i) * float64(r.Interval))
		w.Sessions[i] = Session{First: int32(i), Turns: 1, Arrival: at, HasArrival: true, Automatic: true}
		w.Turns[i] = Turn{Session: int32(i), Next: -1, Input: int32(r.Input), Output: int32(r.Output)}
	}
	return w
}

// makeSessions returns a workload with sessions. Sessions of a group have a common prefix.
func (r *Synthetic) makeSessions() *Workload {
	blocks := r.blocksPerPrompt()
	w := &Workload{
		Name: syntheticName, TraceBlock: r.Block, Sessional: true, SessionPrefix: syntheticPrefix,
		Sessions: make([]Session, r.Requests), Turns: make([]Turn, 0, r.Requests*r.Turns),
	}
	var gap, start sim.Time
	if r.Interval > 0 {
		gap = 1000.0 / (1000.0 / r.Interval) // computed from the rate, with the same rounding as the reference
	}
	shared := uint64(0)
	if r.Groups > 0 {
		shared = SharedBlocks(uint64(blocks), r.SharedRatio)
	}
	random := sim.NewRand(r.Seed, "loadgen/groups")
	ids, unique := make([]uint64, 0, blocks*r.Turns*r.Requests), uint64(1)
	for i := range w.Sessions {
		w.Sessions[i] = Session{First: int32(len(w.Turns)), Turns: int32(r.Turns), Arrival: start, HasArrival: true, Automatic: true}
		start += gap
		group := uint64(0)
		if shared > 0 {
			group = random.Uint64N(uint64(r.Groups))
		}
		for k := range r.Turns {
			from := len(ids)
			for b := range uint64(blocks) {
				switch {
				case b >= shared:
					ids = append(ids, unique)
					unique++
				case r.Compat:
					ids = append(ids, b)
				default:
					ids = append(ids, SharedID(group, b))
				}
			}
			t := Turn{Session: int32(i), Index: int32(k), Next: int32(len(w.Turns) + 1), Input: int32(r.Input), Output: int32(r.Output), IDs: ids[from:len(ids):len(ids)]}
			if k > 0 {
				t.Delay = r.Delay
			}
			w.Turns = append(w.Turns, t)
		}
		w.Turns[len(w.Turns)-1].Next = -1
	}
	return w
}

// SharedBlocks returns the number of blocks that a group shares.
func SharedBlocks(blocks uint64, ratio float64) uint64 {
	return min(uint64(math.Round(float64(blocks)*ratio)), blocks)
}

// SharedID returns the hash id of block b of a prefix group.
func SharedID(group, b uint64) uint64 { return 0xA63E000000000000 | group<<32 | b }

// CheckRatio returns an error unless r is a valid shared ratio, 0 to 1.
func CheckRatio(r float64) error {
	if !(r >= 0 && r <= 1) {
		return fmt.Errorf("shared prefix ratio is %v, must be 0 to 1", r)
	}
	return nil
}
