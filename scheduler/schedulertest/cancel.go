package schedulertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// RunCancel tests Cancel on the core that build makes. RunCancel cancels requests between passes in any state. All
// other requests must gain all their tokens, and no block of the pool may be lost. If evictions take time, exact is
// false.
func RunCancel(t *testing.T, exact bool, build func(Setup) scheduler.Core) {
	const cases = 40
	canceled := 0
	for seed := range uint64(cases) {
		w := newWorkload(seed)
		c := canceler{
			replayer: newReplayer(build(w.setup), w.arrivals, OneByOne),
			w:        w, rng: rand.New(rand.NewPCG(seed, 3)), lives: make([]life, len(w.arrivals)),
		}
		err := c.run(c.cancelSome, func(s Step) error { return w.followStep(c.lives, s) })
		if err == nil {
			err = c.checkComplete()
		}
		if err == nil {
			err = c.checkEmptied(build(w.setup), exact)
		}
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, w)
		}
		canceled += c.canceled
	}
	if canceled < cases {
		t.Errorf("%d requests canceled in %d cases, expected more", canceled, cases)
	}
}

// canceler cancels random requests between the passes of a core.
type canceler struct {
	*replayer
	w        *workload
	rng      *rand.Rand
	lives    []life
	canceled int
}

// listHere returns the requests on the core: submitted and not finished.
func (c *canceler) listHere() (ids []sim.RequestID) {
	for id := range c.next {
		if c.lives[id].lasts == 0 {
			ids = append(ids, sim.RequestID(id))
		}
	}
	return ids
}

// cancelSome sometimes cancels a random request, and one that is not on the core.
func (c *canceler) cancelSome() error {
	from := c.core
	here := c.listHere()
	for len(here) > 0 && c.rng.IntN(8) == 0 {
		id := here[c.rng.IntN(len(here))]
		if !from.Cancel(c.now, id, &c.pass) {
			return fmt.Errorf("cancel of request %d finds nothing", id)
		}
		if from.Cancel(c.now, id, &c.pass) {
			return fmt.Errorf("second cancel of request %d finds something", id)
		}
		c.lives[id].lasts = -1 // canceled
		c.canceled++
		here = c.listHere()
	}
	if c.core.Load() != len(here) {
		return fmt.Errorf("load is %d, must be %d", c.core.Load(), len(here))
	}
	return nil
}

// checkComplete checks that every request that was not canceled has gained all its tokens.
func (c *canceler) checkComplete() error {
	for id, l := range c.lives {
		if l.lasts != -1 && (l.firsts != 1 || l.lasts != 1) {
			return fmt.Errorf("request %d, which was not canceled: %+v", id, l)
		}
	}
	return nil
}

// checkEmptied checks that a new prompt can use most of the pool, and with exact that the prompt's passes equal the
// passes on a fresh core.
func (c *canceler) checkEmptied(fresh scheduler.Core, exact bool) error {
	s := &c.w.setup
	tokens := (s.Blocks - 3) * s.BlockTokens * 3 / 4
	ids := make([]uint64, tokens/s.BlockTokens+1)
	for i := range ids {
		ids[i] = uint64(1_000_000 + i)
	}
	big := &sim.Request{ID: sim.RequestID(len(c.w.arrivals)), InputTokens: tokens, OutputTokens: s.BlockTokens + 1}
	big.Prompt = s.Tree.Add(ids, tokens)
	var gaps [2][]float64
	for i, core := range []scheduler.Core{fresh, c.core} {
		core.Submit(big)
		for at := sim.Time(1 << 30); core.Load() > 0; at = c.pass.End {
			if err := core.Step(at, at, &c.pass); err != nil {
				return err
			}
			gaps[i] = append(gaps[i], float64(c.pass.PrefillTokens), float64(c.pass.Tokens), float64(c.pass.Gap))
		}
	}
	if exact && !slices.Equal(gaps[0], gaps[1]) {
		return fmt.Errorf("a large request runs as %v after cancellations, must be %v", gaps[1], gaps[0])
	}
	return nil
}
