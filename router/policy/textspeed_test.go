package policy

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/router"
)

// textLoad returns the load of a router with a Text of three terms, the KV policy's cost and a filter, behind an
// Admission.
func textLoad(tb testing.TB, workers int, s router.Signals) *load {
	tb.Helper()
	l := newLoad(tb, workers, 1)
	o := Options{BlockTokens: 64, Tree: l.tree, CacheBlocks: 10_000}
	p, err := NewText(Text{
		Picker:  TakeHighest,
		Filters: []TextFilter{{Keep: "requests <= min(requests) + 100"}},
		Scorers: []TextScorer{
			{Weight: 1, Cost: "max((tokens_to_compute + max(request.input_tokens, cached_blocks * block_tokens)) / block_tokens - cached_blocks, 0)"},
			{Weight: 1, Cost: "active_blocks + request.blocks - active_overlap"},
			{Weight: 0.5, Score: "max(requests) == min(requests) ? 1 : (max(requests) - requests) / (max(requests) - min(requests))"},
		},
	}, o)
	if err != nil {
		tb.Fatal(err)
	}
	a, err := NewAdmission(Admission{Rules: []AdmissionRule{{router.Shed, "min(requests) > 1000"}}}, o)
	if err != nil {
		tb.Fatal(err)
	}
	l.d, l.running = router.New(router.Options{Policy: p, Admission: a, Workers: workers, Tree: l.tree, Signals: s}), l.running[:0]
	for range 2 * len(l.sent) {
		l.step(tb)
	}
	return l
}

// TestTextAllocatesNothing checks that a warm router with a Text allocates nothing, for any number of candidates.
func TestTextAllocatesNothing(t *testing.T) {
	for _, workers := range []int{8, 70} {
		late := router.Age{Interval: 10} // all calls are at the instant 0
		for _, s := range []router.Signals{{}, {Index: &late, Loads: &late}} {
			l := textLoad(t, workers, s)
			if n := testing.AllocsPerRun(1000, func() { l.step(t) }); n > 0 {
				t.Errorf("%d workers: %v allocations for a request, want none", workers, n)
			}
		}
	}
}

// BenchmarkRequestByText is BenchmarkRequest with a Text instead of the KV policy.
func BenchmarkRequestByText(b *testing.B) {
	for _, workers := range []int{8, 64} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			l := textLoad(b, workers, router.Signals{})
			b.ReportAllocs()
			for b.Loop() {
				l.step(b)
			}
		})
	}
}
