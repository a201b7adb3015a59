package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
)

func summary(t testing.TB, text string, o formats.Options) *Summary {
	t.Helper()
	s, err := registry.NewStream(strings.NewReader(text), "a.jsonl", o)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := Read(s)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// reuseOf counts reused and distinct blocks with a map of all prefixes.
func reuseOf(prompts [][]uint64) (reused, distinct int) {
	seen := map[string]bool{}
	for _, ids := range prompts {
		text := ""
		for _, id := range ids {
			text += fmt.Sprint(id, " ")
			if seen[text] {
				reused++
			} else {
				distinct++
			}
			seen[text] = true
		}
	}
	return reused, distinct
}

// The statistics equal those of a map of all prefixes, for small and for large ids. An id can have different
// prefixes.
func TestReuseIsExact(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var prompts [][]uint64
		var b strings.Builder
		for i := range 200 {
			var ids []uint64
			for range 1 + random.IntN(8) {
				id := random.Uint64N(3)
				if seed%2 == 1 {
					id = math.MaxUint64 - id
				}
				ids = append(ids, id)
			}
			prompts = append(prompts, ids)
			list, _ := json.Marshal(ids)
			fmt.Fprintf(&b, `{"timestamp":%d,"output_length":1,"hash_ids":%s}`+"\n", i, list)
		}
		reused, distinct := reuseOf(prompts)
		sum := summary(t, b.String(), formats.Options{})
		if int(sum.Reused.Value) != reused || int(sum.Distinct.Value) != distinct || sum.Reused.Approximate || reused == 0 {
			t.Errorf("seed %d: %v blocks reused and %v distinct, want %d and %d", seed, sum.Reused, sum.Distinct, reused, distinct)
		}
	}
}

// If there are too many blocks, the statistics are close to the exact values and marked as estimates.
func TestEstimates(t *testing.T) {
	c := newCounter(1000)
	hits := 0.0
	for round := range 3 {
		for key := range uint64(100_000) {
			weight, known := c.visitKey(mixBits(key + 1))
			if known != (weight > 0 && round > 0) {
				t.Fatalf("round %d: key %d is known: %v", round, key, known)
			}
			if known {
				hits += weight
			}
		}
	}
	if c.counts.Len() > 1000 || c.weight() < 2 || math.Abs(float64(c.counts.Len())*c.weight()-100_000) > 15_000 || math.Abs(hits-200_000) > 30_000 {
		t.Errorf("%d keys held at weight %v, %v came again; want about 100000 and 200000", c.counts.Len(), c.weight(), hits)
	}
	for _, n := range c.counts.All() {
		if *n != 3 {
			t.Fatalf("a key came %d times, want 3", *n)
		}
	}
}

// Quantiles of short lengths are exact. The error of long lengths is at most 1/2000.
func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var l Lengths
	var all []int
	for range 5001 {
		n := int(math.Exp(random.Float64() * 20))
		all = append(all, n)
		l.add(n)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.1, 0.5, 0.9, 0.99, 1} {
		want, got := all[int(float64(len(all)-1)*q+0.5)], l.Quantile(q)
		if got != want && (want < exactLengths || math.Abs(float64(got-want)) > float64(want)/2000) {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if !l.Approximate || l.Min != all[0] || l.Max != all[5000] {
		t.Errorf("from %d to %d, approximate: %v", l.Min, l.Max, l.Approximate)
	}
	for n := exactLengths; n < 1<<30; n += n / 1000 {
		if at := stepOf(n); floorOf(at) > n || floorOf(at+1) <= n {
			t.Fatalf("%d is in step %d, from %d to %d", n, at, floorOf(at), floorOf(at+1))
		}
	}
}

// The timeline counts all arrivals when it grows before its start and after its end.
func TestTimeline(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 1))
	line := newTimeline()
	first, last := math.Inf(1), math.Inf(-1)
	for i := range 10_000 {
		at := (random.Float64() - 0.5) * math.Pow(2, float64(i%40))
		first, last = min(first, at), max(last, at)
		line.add(at)
	}
	sum := int64(0)
	for _, s := range line.Spans(20) {
		sum += s.Arrivals
	}
	if sum != 10_000 || line.First != first || line.Last != last || len(line.counts) > spans {
		t.Errorf("%d arrivals from %v to %v in %d spans, want 10000 from %v to %v", sum, line.First, line.Last, len(line.counts), first, last)
	}
	even := newTimeline()
	for i := range 1001 {
		even.add(float64(i) * 100)
	}
	if even.Rate() != 10 || even.Burstiness() > 1e-9 || even.Peak().Arrivals > 11 {
		t.Errorf("rate %v, burstiness %v, peak %+v of an even beat of 10 a second", even.Rate(), even.Burstiness(), even.Peak())
	}
}

// The statistics of the published conversation trace of Mooncake have the expected values.
func TestMooncakeConversation(t *testing.T) {
	s, err := registry.OpenPath(optional.Data(t, "traces/mooncake_conversation.jsonl"), nil, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sum, err := Read(s)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Requests != 12031 || sum.Distinct.Value != 182790 || sum.Blocks != 288500 || sum.Unsorted != 0 || math.Abs(sum.Reuse()-0.374) > 0.001 {
		t.Errorf("%d requests, %v of %d blocks distinct, reuse %v", sum.Requests, sum.Distinct, sum.Blocks, sum.Reuse())
	}
	var text, list bytes.Buffer
	if err := sum.WriteText(&text); err != nil || !strings.Contains(text.String(), "37.4 % of prompt tokens") {
		t.Errorf("%v\n%s", err, &text)
	}
	if err := sum.WriteJSON(&list); err != nil || !json.Valid(list.Bytes()) {
		t.Errorf("%v\n%s", err, &list)
	}
}

// BenchmarkInspect measures rows per second and retained memory.
func BenchmarkInspect(b *testing.B) {
	var text bytes.Buffer
	const rows = 100_000
	for i := range rows {
		fmt.Fprintf(&text, `{"timestamp":%d.25,"input_length":%d,"output_length":150,"hash_ids":[0,%d,%d]}`+"\n", i*10, 1100+i%300, i+1, i+rows)
	}
	b.ReportAllocs()
	for b.Loop() {
		s, err := registry.NewStream(bytes.NewReader(text.Bytes()), "a", formats.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Read(s); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
}
