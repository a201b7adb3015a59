package replay_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// given is a custom policy: its needs, and a function that chooses.
type given struct {
	needs  router.Needs
	choose func(q *sim.Request, c *router.Candidates) sim.WorkerID
}

func (g given) Needs() router.Needs { return g.needs }

func (g given) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	return router.Choice{Worker: g.choose(q, c), Second: router.None}
}

// mostCached returns a policy that chooses the worker with the most cached blocks of the prompt, and among equals the
// fewest requests.
func mostCached() given {
	return given{router.Needs{Running: true, Overlap: true}, func(_ *sim.Request, c *router.Candidates) sim.WorkerID {
		best := c.Workers[0]
		for _, w := range c.Workers {
			if c.Overlap[w] > c.Overlap[best] || c.Overlap[w] == c.Overlap[best] && c.Running[w] < c.Running[best] {
				best = w
			}
		}
		return best
	}}
}

// givenSpec returns a replay of sessions with turns that share prefixes.
func givenSpec() replay.Spec {
	return replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 300, Input: 700, Output: 30, Interval: 20, Turns: 5, SharedRatio: 0.5, Groups: 7, Delay: 100},
		Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(engineargs.Default(), 4)},
	}
}

// runGiven returns the worker of each request, and the report without real time.
func runGiven(t *testing.T, spec replay.Spec, make func(policy.Options) (router.Policy, error)) ([]sim.WorkerID, any) {
	t.Helper()
	if make != nil {
		spec.Router = &policy.Given{Make: make}
	}
	result, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	var workers []sim.WorkerID
	for _, r := range result.Collector.Requests() {
		workers = append(workers, r.Worker)
	}
	result.Report.SetWall(time.Second)
	return workers, result.Report
}

// TestGivenPolicyIsTextTwin compares a custom policy with the same policy in a file: with one pool and with two, in
// an open loop, and with engines that report caches in events.
func TestGivenPolicyIsTextTwin(t *testing.T) {
	text := &policy.Text{Name: "twin", Picker: policy.TakeHighest, Filters: []policy.TextFilter{{Keep: "cached_blocks == max(cached_blocks)"}}, Scorers: []policy.TextScorer{{Weight: 1, Cost: "requests"}}}
	prefill, decode := engineargs.Default(), engineargs.Default()
	prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
	trace := &replay.Trace{Path: "../testdata/traces/chat-hour.jsonl", Detect: true}
	uncached := engineargs.Default()
	uncached.PrefixCaching = false
	for name, pools := range map[string][]replay.Pool{
		"one pool": replay.OnePool(engineargs.Default(), 4), "open loop": replay.OnePool(engineargs.Default(), 4), "events": replay.OnePool(uncached, 4),
		"two pools": replay.TwoPools(replay.Pool{Engine: prefill, Count: 3}, replay.Pool{Engine: decode, Count: 2}),
	} {
		spec := givenSpec()
		if spec.Pools = pools; name == "open loop" {
			spec.Trace, spec.Speedup = trace, 20
		}
		var roles []scheduler.Role
		own, ownReport := runGiven(t, spec, func(o policy.Options) (router.Policy, error) {
			roles = append(roles, o.Role)
			return mostCached(), nil
		})
		spec.Router = text
		want, wantReport := runGiven(t, spec, nil)
		if !reflect.DeepEqual(own, want) || !reflect.DeepEqual(ownReport, wantReport) {
			t.Errorf("%s: requests are not where the policy in a file places them", name)
		}
		if len(roles) != len(pools) || roles[0] != pools[0].Role {
			t.Errorf("%s: policies were made for %v, want one of each pool", name, roles)
		}
	}
}

// TestGivenPolicyIsMadeAnew checks that a restart of the router makes a new policy.
func TestGivenPolicyIsMadeAnew(t *testing.T) {
	spec := givenSpec()
	spec.Faults = &replay.Faults{Events: []engines.Fault{{Kind: engines.Router, At: 500, Pool: engines.Anywhere, Zone: engines.Anywhere}}, OnLoss: engines.RetryThem, Limit: 3}
	made := 0
	runGiven(t, spec, func(policy.Options) (router.Policy, error) { made++; return mostCached(), nil })
	if made != 2 {
		t.Errorf("the policy was made %d times, want 2", made)
	}
}

// TestGivenPolicyChoosesCandidates checks that a policy that chooses no candidate ends the replay with an error, for
// any needs.
func TestGivenPolicyChoosesCandidates(t *testing.T) {
	for _, needs := range []router.Needs{{}, {Running: true}} {
		for _, w := range []sim.WorkerID{-1, 4, 1 << 30} {
			spec := givenSpec()
			spec.Router = &policy.Given{Make: func(policy.Options) (router.Policy, error) {
				return given{needs, func(*sim.Request, *router.Candidates) sim.WorkerID { return w }}, nil
			}}
			_, err := spec.Run(context.Background(), replay.Streams{})
			var choice *router.ChoiceError
			if !errors.As(err, &choice) || choice.Worker != w {
				t.Errorf("%+v: chose worker %d: got %v", needs, w, err)
			}
		}
	}
}

// TestGivenPolicyRefusals checks that settings that are not supported with a custom policy are rejected.
func TestGivenPolicyRefusals(t *testing.T) {
	made := func(policy.Options) (router.Policy, error) {
		return given{needs: router.Needs{Metrics: true}}, nil
	}
	changed, into := givenSpec(), givenSpec()
	changed.Changes = []replay.Change{{At: 1, Routing: policy.KV}}
	into.Router, into.Changes = policy.KV, []replay.Change{{At: 1, Routing: &policy.Given{Make: made}}}
	late := givenSpec()
	late.Signals.Set(router.Caches, router.Age{Delay: 100})
	for _, c := range []struct {
		spec replay.Spec
		want string
	}{
		{changed, "a change of the router is not supported with a router policy of the caller's"},
		{into, "a change of the router is not supported with a router policy of the caller's"},
		{late, "index, and the router reads only running, waiting and kv_usage"},
	} {
		if c.spec.Router == nil {
			c.spec.Router = &policy.Given{Make: made}
		}
		if _, err := c.spec.Run(context.Background(), replay.Streams{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want an error with %q, got %v", c.want, err)
		}
	}
	failing := errors.New("no policy today")
	spec := givenSpec()
	spec.Router = &policy.Given{Make: func(policy.Options) (router.Policy, error) { return nil, failing }}
	if _, err := spec.Run(context.Background(), replay.Streams{}); !errors.Is(err, failing) {
		t.Errorf("got %v, want %v", err, failing)
	}
}
