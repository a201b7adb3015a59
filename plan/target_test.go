package plan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

// The best of several variants is the cheapest cluster of any variant that meets in the target share of resamples. A
// search over every size and every resample finds the same cluster, and so does a plan of only this variant.
func TestTargetOfAllVariants(t *testing.T) {
	const most, resamples = 24, 20
	for seed := range uint64(300) {
		rand := rand.New(rand.NewPCG(seed, 1))
		variants, tables := 1+rand.IntN(3), [][][]bool{}
		for range variants {
			tables = append(tables, drawSizes(rand, most, resamples))
		}
		c := Config{
			Run:  judged(func(p Point) bool { return p.Load <= 1 && tables[p.Variant][p.Shape.Workers][p.Sample] }),
			Most: most, Precision: 0.1, Resamples: resamples, Confidence: 0.95, Cores: 2,
		}
		least, which := 0, -1
		for v := range variants {
			gpus := 1 + rand.IntN(4)
			c.Variants = append(c.Variants, Variant{Name: fmt.Sprint(v), GPUs: gpus})
			if n := smallestByTrying(tables[v], 19); n > 0 && (which < 0 || n*gpus < least) {
				least, which = n*gpus, v
			}
		}
		p, err := Find(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if which < 0 {
			if p.Best >= 0 && p.Answers[p.Best].Confident.Found {
				t.Fatalf("seed %d: %+v, want none", seed, p.Answers[p.Best].Confident)
			}
			continue
		}
		best := &p.Answers[p.Best]
		if f := best.Confident; !f.Found || p.GPUs(p.Best, f.Shape) != least || f.Met < 19 {
			t.Fatalf("seed %d: variant %d with %+v, want %d GPUs of variant %d", seed, p.Best, f, least, which)
		}
		alone := c
		run, only := c.Run, p.Best
		alone.Variants = c.Variants[only : only+1]
		alone.Run = func(ctx context.Context, at Point) (Measure, error) {
			at.Variant = only
			return run(ctx, at)
		}
		q, err := Find(t.Context(), alone)
		if err != nil || q.Answers[0].Confident.Shape != best.Confident.Shape {
			t.Fatalf("seed %d: variant %d alone: %+v, %v; beside others %+v", seed, only, q.Answers[0].Confident, err, best.Confident)
		}
	}
}

// drawSizes returns whether each size meets, on the workload and on each resample. Sizes meet from a minimum on,
// which differs between resamples, with some exceptions.
func drawSizes(rand *rand.Rand, most, resamples int) [][]bool {
	need := make([]int, resamples+1)
	from, spread := 1+rand.IntN(most), 1+rand.IntN(8)
	for k := range need {
		need[k] = from + rand.IntN(spread)
	}
	all := make([][]bool, most+1)
	for n := range all {
		odd := rand.IntN(12) == 0
		for k := range need {
			all[n] = append(all[n], n > 0 && (n >= need[k]) != odd)
		}
	}
	return all
}

func smallestByTrying(table [][]bool, need int) int {
	for n := 1; n < len(table); n++ {
		met := 0
		for _, ok := range table[n][1:] {
			if ok {
				met++
			}
		}
		if met >= need {
			return n
		}
	}
	return 0
}

// Given clusters are resampled, too. A cluster that meets in more resamples is better than a cluster with equal GPUs
// that sustains a higher load.
func TestTargetOfGivenClusters(t *testing.T) {
	c := Config{
		Run: judged(func(p Point) bool {
			if p.Variant == 0 {
				return p.Load <= 2 && (p.Sample == 0 || p.Sample > 10)
			}
			return p.Load <= 1
		}),
		Variants: []Variant{{Name: "a", Fixed: One(4)}, {Name: "b", Fixed: One(4)}}, Most: 8, Precision: 0.1, Resamples: 20, Confidence: 0.95, Cores: 2,
	}
	p, err := Find(t.Context(), c)
	if err != nil || p.Best != 1 || p.Answers[0].ResamplesMet != 10 || p.Answers[1].ResamplesMet != 20 {
		t.Errorf("best %d, %+v, %v; want the second", p.Best, p.Answers, err)
	}
}
