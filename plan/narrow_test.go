package plan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// made holds clusters with known results.
type made struct {
	variants []Variant
	needs    []int // workers of each variant on all of the workload; 0: none meet
	short    float64
}

// newMade draws variants with one to eight GPUs per worker. A stretch needs a share of the workers.
func newMade(rng *rand.Rand) *made {
	m := &made{short: 0.7 + 0.3*rng.Float64()}
	for i := range 12 + rng.IntN(60) {
		gpus := 1 << rng.IntN(4)
		m.variants = append(m.variants, Variant{Name: fmt.Sprint(i), Kind: fmt.Sprint(gpus), GPUs: gpus})
		m.needs = append(m.needs, max(1, (1+rng.IntN(120))/gpus))
		if rng.IntN(9) == 0 {
			m.needs[i] = 0
		}
	}
	return m
}

func (m *made) run(_ context.Context, p Point) (Measure, error) {
	need := float64(m.needs[p.Variant])
	if p.Part > 0 {
		need *= m.short
	}
	excess := need / float64(p.Shape.Size())
	if need == 0 {
		excess = 2
	}
	return Measure{Met: excess <= 1, Values: []Value{{Unit: "ms", Value: excess, Limit: 1}}}, nil
}

func (m *made) narrow(t *testing.T, cores int) *Narrowed {
	t.Helper()
	found, err := Narrow(t.Context(), Narrowing{
		Config: Config{Run: m.run, Variants: m.variants, Most: 256, Cores: cores}, Keep: 4, Parts: []int{3, 1, 0},
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The best variant is found with a small share of the replays of an exhaustive search, for any number of cores.
func TestNarrowFindsTheBest(t *testing.T) {
	for seed := range uint64(300) {
		m := newMade(rand.New(rand.NewPCG(seed, 7)))
		least := 0
		for i, n := range m.needs {
			if gpus := n * m.variants[i].GPUs; n > 0 && (least == 0 || gpus < least) {
				least = gpus
			}
		}
		found := m.narrow(t, 1)
		if again := m.narrow(t, 4); !reflect.DeepEqual(found, again) {
			t.Fatalf("seed %d: %+v with one core, %+v with four", seed, found, again)
		}
		if len(found.Kept) == 0 {
			t.Fatalf("seed %d: nothing found, the best needs %d GPUs", seed, least)
		}
		best := found.Kept[0]
		if got := found.At[0].Shape.Size() * m.variants[best].GPUs; got != least {
			t.Errorf("seed %d: the best needs %d GPUs, found variant %d with %d", seed, least, best, got)
		}
		if all := len(m.variants) * 256; found.Replays > all/20 {
			t.Errorf("seed %d: %d replays, more than a twentieth of %d", seed, found.Replays, all)
		}
		if got := len(found.Kept) + len(found.Left); got != len(m.variants) {
			t.Errorf("seed %d: %d variants are kept or left out, want all %d", seed, got, len(m.variants))
		}
	}
}

// A variant that cannot run is refused, and the other variants are searched.
func TestNarrowRefuses(t *testing.T) {
	m := newMade(rand.New(rand.NewPCG(1, 1)))
	reason := errors.New("too large")
	run := func(ctx context.Context, p Point) (Measure, error) {
		if p.Variant%3 == 0 {
			return Measure{}, &CannotRunError{reason}
		}
		return m.run(ctx, p)
	}
	found, err := Narrow(t.Context(), Narrowing{Config: Config{Run: run, Variants: m.variants, Most: 256, Cores: 2}, Keep: 2, Parts: []int{2, 0}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.variants {
		if refused := m.variants[i].Refused; (refused != nil) != (i%3 == 0) {
			t.Errorf("variant %d: refused: %v", i, refused)
		}
	}
	if len(found.Kept) == 0 {
		t.Error("nothing is found")
	}
}

// A stopped search returns the results so far. If no cluster meets, a stopped search returns the nearest cluster.
func TestNarrowEnds(t *testing.T) {
	m := newMade(rand.New(rand.NewPCG(3, 1)))
	c := Narrowing{Config: Config{Run: m.run, Variants: m.variants, Most: 256, Cores: 2}, Keep: 2, Parts: []int{3, 0}, Stop: func(replays int) bool { return replays > 60 }}
	found, err := Narrow(t.Context(), c)
	if err != nil || !found.Stopped || len(found.Kept) == 0 || found.Replays > 60+len(m.variants) {
		t.Errorf("stopped after 60 replays: %+v, %v", found, err)
	}
	clear(m.needs)
	c.Stop = nil
	if found, err = Narrow(t.Context(), c); err != nil || len(found.Kept) > 0 || found.Nearest == nil {
		t.Errorf("where nothing meets: %+v, %v", found, err)
	}
	if found.Replays > 4*len(m.variants) {
		t.Errorf("%d replays of %d variants to find that no number of workers helps", found.Replays, len(m.variants))
	}
}

// Single workers of equal variants are replayed once, and each variant has the measure.
func TestNarrowSharesSingleWorkers(t *testing.T) {
	runs := 0
	variants := make([]Variant, 12)
	for i := range variants {
		variants[i] = Variant{Kind: "a", GPUs: 1, Single: "one worker", Changes: i}
	}
	run := func(_ context.Context, p Point) (Measure, error) {
		runs++
		return Measure{Met: true, Values: []Value{{Unit: "ms", Value: 0.5, Limit: 1}}, Requests: 100}, nil
	}
	found, err := Narrow(t.Context(), Narrowing{Config: Config{Run: run, Variants: variants, Most: 8, Cores: 1}, Keep: 4, Parts: []int{0}})
	if err != nil || runs != 1 || found.Replays != 1 || found.Requests != 100 {
		t.Errorf("%d replays (%d of %d requests by its count), %v, want 1", runs, found.Replays, found.Requests, err)
	}
	for i := range found.Left {
		if l := &found.Left[i]; l.At == nil || l.At.Variant != l.Variant {
			t.Errorf("variant %d has the measure %+v", l.Variant, l.At)
		}
	}
}

// A variant that could only be as good at a higher cost than the best of its kind is replayed once.
func TestNarrowRaces(t *testing.T) {
	m := &made{short: 1}
	for i := range 40 {
		m.variants = append(m.variants, Variant{Kind: "a", GPUs: 1, Changes: min(i, 2)})
		m.needs = append(m.needs, 20+i)
	}
	found, err := Narrow(t.Context(), Narrowing{Config: Config{Run: m.run, Variants: m.variants, Most: 256, Cores: 2}, Keep: 4, Parts: []int{0}})
	if err != nil || len(found.Kept) == 0 || found.Kept[0] != 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	if found.Replays > 10+40 {
		t.Errorf("%d replays of 40 variants", found.Replays)
	}
	for i := range found.Left {
		if l := &found.Left[i]; l.At == nil && l.Most != One(20) {
			t.Errorf("variant %d misses with up to %v, want 20 workers", l.Variant, l.Most)
		}
	}
}
