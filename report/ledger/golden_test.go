package ledger_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/ledger"
)

// The parts of every request of every golden case sum to its end-to-end
// latency, and none is negative.
func TestGoldenLedgersSum(t *testing.T) {
	checkLedgers(t, "../../testdata/reference")
	t.Run("optional", func(t *testing.T) { checkLedgers(t, optional.Data(t, "golden")) })
}

// checkLedgers checks the ledgers of all cases in dir.
func checkLedgers(t *testing.T, dir string) {
	t.Helper()
	cases, err := reference.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	for i := range cases {
		requests += checkCase(t, &cases[i], true) + checkCase(t, &cases[i], false)
	}
	t.Logf("%s: %d ledgers of %d cases", dir, requests, len(cases))
	if requests < 1000 {
		t.Errorf("%s: %d ledgers, want at least 1000", dir, requests)
	}
}

// checkCase replays c with the rules of the reference or with vLLM's own rules, and returns the number of checked
// ledgers.
func checkCase(t *testing.T, c *reference.Case, compat bool) (checked int) {
	t.Helper()
	spec, err := c.Spec()
	if err != nil {
		t.Errorf("%s: %v", c.Name, err)
		return 0
	}
	spec.Compat = compat
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if c.Outcome != reference.OK {
		return 0
	}
	book := ledger.NewBook(nil, engines(t, &spec)...)
	result, err := spec.Run(ctx, replay.Streams{Observer: book})
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", c.Name, err)
		}
		return 0
	}
	bad := 0
	for id, r := range result.Collector.Requests() {
		entry, ok := book.Entry(id)
		if !ok {
			t.Errorf("%s: request %d has finished and has no ledger", c.Name, id)
			return checked
		}
		checked++
		if e2e := float64(r.Last - r.Arrival); math.Abs(entry.Sum()-e2e) > 1e-6 {
			t.Errorf("%s: request %d: parts %v sum to %v ms, want %v", c.Name, id, entry, entry.Sum(), e2e)
			bad++
		}
		for part, ms := range entry {
			if ms < 0 {
				t.Errorf("%s: request %d: %v is %v ms, want at least 0", c.Name, id, ledger.Part(part), ms)
				bad++
			}
		}
		if bad > 3 {
			return checked
		}
	}
	return checked
}

func engines(t *testing.T, spec *replay.Spec) (all []*ledger.Engine) {
	t.Helper()
	for i := range spec.Pools {
		e, err := ledger.NewEngine(&spec.Pools[i].Engine)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}
