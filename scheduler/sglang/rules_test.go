package sglang

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/scheduler"
)

// Every choice can be made alone: each set of rules one choice away from the
// reference or from the default either says why not, or gives each request of
// every run the tokens it asked for, or stalls with a reason.
func TestSingleChoices(t *testing.T) {
	n := reflect.TypeFor[Rules]().NumField()
	if n != 18 {
		t.Fatalf("%d rules, want the 18 of the specification", n)
	}
	finished := 0
	for i := range 2 * n {
		rules := CompatRules()
		if i%2 == 1 {
			rules = DefaultRules()
		}
		f := reflect.ValueOf(&rules).Elem().Field(i / 2)
		f.SetBool(!f.Bool())
		name := reflect.TypeFor[Rules]().Field(i / 2).Name
		if rules.check() != nil {
			continue
		}
		for seed := range 60 {
			c, traceBlock, trace := tight(rules, rand.New(rand.NewPCG(uint64(seed), 11)))
			fits := trace[:0]
			for _, l := range trace {
				if Fits(with(c, func(c *Config) { c.Rules = DefaultRules() }), l.in, l.out) == nil {
					fits = append(fits, l)
				}
			}
			if !rules.Pages || !rules.LockFirst {
				c.Capture = scheduler.CaptureNone
			}
			x := newRun(&c, traceBlock, fits)
			core, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			var stall *scheduler.StallError
			switch err := x.play(core); {
			case errors.As(err, &stall):
				continue
			case err != nil:
				t.Fatalf("%s from %v, seed %d: %v", name, i%2, seed, err)
			}
			finished++
			for k, r := range x.requests {
				want := max(1, r.OutputTokens)
				if c.Role == scheduler.Prefill {
					want = 1
				}
				if x.tokens[k] != want {
					t.Fatalf("%s from %v, seed %d: request %d has %d tokens, want %d", name, i%2, seed, k, x.tokens[k], want)
				}
			}
		}
	}
	if finished < 500 {
		t.Errorf("%d runs ended, want at least 500", finished)
	}
	t.Logf("%d runs ended", finished)
}
