package policy

import (
	"slices"
	"testing"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
)

// TestRegistry checks that each policy is found by all its names, can be made, and has constant needs.
func TestRegistry(t *testing.T) {
	var seen []string
	for _, p := range All() {
		if p.Help == "" || p.MinWorkers < 1 || p.Name.String() != p.Report || p.Name.Info().Name != p.Name {
			t.Errorf("row %+v", p)
		}
		names := []string{string(p.Name)}
		if p.Alias != "" {
			names = append(names, p.Alias)
		}
		if !slices.Contains(names, p.Report) {
			names = append(names, p.Report)
		}
		for _, name := range names {
			if got, err := Parse(name); got != p.Name || err != nil {
				t.Errorf("%s is %q, %v; want %q", name, got, err, p.Name)
			}
			if slices.Contains(seen, name) {
				t.Errorf("%s is the name of two", name)
			}
		}
		seen = append(seen, names...)
		for _, role := range []scheduler.Role{scheduler.Aggregated, scheduler.Prefill, scheduler.Decode} {
			made, err := New(p.Name, Options{Config: router.DefaultConfig(), Role: role, BlockTokens: 16})
			if err != nil {
				t.Fatal(err)
			}
			n := made.Needs()
			if n.Overlap != p.Caches || (n.Hold != nil) != p.Caches {
				t.Errorf("%s as %v needs %+v", p.Name, role, n)
			}
			if role == scheduler.Decode && n.Tokens {
				t.Errorf("%s counts prompt tokens on decode workers, of which nobody tells", p.Name)
			}
		}
	}
	if All()[0].Name != RoundRobin || Name("").String() != "round_robin" || KV.String() != "kv_router" {
		t.Error("reports call round robin and KV otherwise")
	}
}

func TestUnknownName(t *testing.T) {
	const want = `router is "nearest", must be one of round_robin, kv, random, least-loaded, p2c, session, cache_aware, consistent_hash, sticky_least_loaded`
	if _, err := Parse("nearest"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if p, err := New("kv_router", Options{}); p != nil || err == nil || err.Error() != `router is "kv_router", must be kv` {
		t.Errorf("a policy by the name that reports call it: %v, %v", p, err)
	}
	if _, err := New("nearest", Options{}); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if got := Name("nearest").String(); got != "nearest" {
		t.Errorf("it is called %s", got)
	}
}
