package vllm_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

func config(s schedulertest.Setup, rules vllm.Rules) vllm.Config {
	return vllm.Config{
		Settings: vllm.Settings{MaxSeqs: s.MaxSeqs, MaxBatchedTokens: s.MaxBatchedTokens, ChunkedPrefill: true, Rules: rules},
		Tree:     s.Tree, Blocks: s.Blocks, BlockTokens: s.BlockTokens,
		PrefixCaching: true,
		Clock:         timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1},
	}
}

func build(t testing.TB, cfg vllm.Config) scheduler.Core {
	c, err := vllm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// flips returns the rules of vLLM 0.19 with one rule changed to the reference's, by the name of the rule, and with
// all of them changed.
func flips() map[string]vllm.Rules {
	all := map[string]vllm.Rules{"all": releases.Rules019(), "none": {}}
	v := reflect.TypeFor[vllm.Rules]()
	for i := range v.NumField() {
		rules := releases.Rules019()
		f := reflect.ValueOf(&rules).Elem().Field(i)
		if f.Kind() == reflect.Bool {
			f.SetBool(!f.Bool())
		} else if f.CanInt() {
			f.SetInt(7)
		} else {
			f.SetFloat(0.1)
		}
		all["without "+v.Field(i).Name] = rules
		rules = vllm.Rules{}
		f = reflect.ValueOf(&rules).Elem().Field(i)
		if f.Kind() == reflect.Bool {
			f.SetBool(true)
			all["only "+v.Field(i).Name] = rules
		}
	}
	return all
}

// The suite passes with each rule alone, and with each rule left out.
func TestSuite(t *testing.T) {
	for name, rules := range flips() {
		t.Run(name, func(t *testing.T) {
			schedulertest.Run(t, func(s schedulertest.Setup) scheduler.Core { return build(t, config(s, rules)) })
		})
	}
}

// request returns a request with a prompt of the given hash ids, of 4 tokens each.
func request(tree *prompt.Tree, id, input, output int, ids ...uint64) *sim.Request {
	return &sim.Request{ID: sim.RequestID(id), InputTokens: input, OutputTokens: output, Prompt: tree.Add(ids, input)}
}

// run replays arrivals and returns one line per pass.
func run(t *testing.T, cfg vllm.Config, arrivals ...schedulertest.Arrival) []string {
	t.Helper()
	var lines []string
	err := schedulertest.Replay(build(t, cfg), arrivals, schedulertest.UntilArrival, func(s schedulertest.Step) error {
		line := fmt.Sprintf("%v-%v", s.Start, s.End)
		for _, a := range s.Admitted {
			line += fmt.Sprintf(" admit %d reused=%d", a.Request, a.Reused)
		}
		for _, m := range s.Marks {
			if m.First {
				line += fmt.Sprintf(" first %d", m.Request)
			}
			if m.Last {
				line += fmt.Sprintf(" last %d", m.Request)
			}
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// second returns a clock in which every pass takes 1 s.
func second() timing.Clock {
	return timing.Clock{Model: &timing.Parameters{Base: 1}}
}

func small(change func(*vllm.Config)) (vllm.Config, *prompt.Tree) {
	tree := prompt.NewTree(4, 4, prompt.Options{})
	c := config(schedulertest.Setup{Tree: tree, BlockTokens: 4, Blocks: 100, MaxSeqs: 8, MaxBatchedTokens: 64}, releases.Rules019())
	c.Clock = second()
	change(&c)
	return c, tree
}

// Transcripts of single rules.
func TestRules(t *testing.T) {
	type at = schedulertest.Arrival
	for _, c := range []struct {
		name   string
		change func(*vllm.Config)
		run    func(tree *prompt.Tree) []at
		want   []string
	}{
		{
			"who arrives during a pass is planned at its end, behind the one that begins then",
			func(*vllm.Config) {},
			func(tree *prompt.Tree) []at {
				return []at{{At: 0, Request: request(tree, 0, 4, 4, 1)}, {At: 500, Request: request(tree, 1, 4, 1, 2)}}
			},
			[]string{"0-1000 admit 0 reused=0 first 0", "1000-2000 admit 1 reused=0", "2000-3000 first 1 last 1", "3000-4000 last 0"},
		},
		{
			"with one pass in flight it is in the next one",
			func(c *vllm.Config) { c.Rules.TwoInFlight = false },
			func(tree *prompt.Tree) []at {
				return []at{{At: 0, Request: request(tree, 0, 4, 4, 1)}, {At: 500, Request: request(tree, 1, 4, 1, 2)}}
			},
			[]string{"0-1000 admit 0 reused=0 first 0", "1000-2000 admit 1 reused=0 first 1 last 1", "2000-3000", "3000-4000 last 0"},
		},
		{
			"a prompt that is cached as a whole computes its last block again",
			func(*vllm.Config) {},
			func(tree *prompt.Tree) []at {
				return []at{{At: 0, Request: request(tree, 0, 8, 1, 1, 2)}, {At: 5000, Request: request(tree, 1, 8, 1, 1, 2)}}
			},
			[]string{"0-1000 admit 0 reused=0 first 0 last 0", "5000-6000 admit 1 reused=4 first 1 last 1"},
		},
		{
			"or nothing of it",
			func(c *vllm.Config) { c.Rules.RecomputeLast = false },
			func(tree *prompt.Tree) []at {
				return []at{{At: 0, Request: request(tree, 0, 8, 1, 1, 2)}, {At: 5000, Request: request(tree, 1, 8, 1, 1, 2)}}
			},
			[]string{"0-1000 admit 0 reused=0 first 0 last 0", "5000-6000 admit 1 reused=8 first 1 last 1"},
		},
		{
			"the head of the line waits for blocks: 4 of 5 are usable",
			func(c *vllm.Config) { c.Blocks = 5 },
			func(tree *prompt.Tree) []at {
				return []at{{At: 0, Request: request(tree, 0, 8, 2, 1, 2)}, {At: 0, Request: request(tree, 1, 8, 1, 3, 4)}}
			},
			[]string{"0-1000 admit 0 reused=0 admit 1 reused=0 first 0 first 1 last 1", "1000-2000 last 0"},
		},
		{
			"with one block fewer it waits until the other has gone",
			func(c *vllm.Config) { c.Blocks = 4 },
			func(tree *prompt.Tree) []at {
				return []at{{At: 0, Request: request(tree, 0, 8, 2, 1, 2)}, {At: 0, Request: request(tree, 1, 8, 1, 3, 4)}}
			},
			[]string{"0-1000 admit 0 reused=0 first 0", "1000-2000 last 0", "2000-2001", "2001-3001 admit 1 reused=0 first 1 last 1"},
		},
		{
			"a request that needs a block preempts the last of running; it finds its own blocks again",
			func(c *vllm.Config) { c.Blocks, c.Rules.TwoInFlight = 5, false },
			func(tree *prompt.Tree) []at {
				return []at{{At: 0, Request: request(tree, 0, 8, 5, 1, 2)}, {At: 0, Request: request(tree, 1, 6, 5, 3, 4)}}
			},
			[]string{
				"0-1000 admit 0 reused=0 admit 1 reused=0 first 0 first 1",
				"1000-2000", "2000-3000", "3000-4000", "4000-5000 last 0",
				"5000-6000 admit 1 reused=4", "6000-7000", "7000-8000", "8000-9000 last 1",
			},
		},
		{
			"a slot that falls free serves the pass after the next",
			func(c *vllm.Config) { c.MaxSeqs = 1 },
			func(tree *prompt.Tree) []at {
				return []at{{At: 0, Request: request(tree, 0, 4, 1, 1)}, {At: 0, Request: request(tree, 1, 4, 1, 2)}}
			},
			[]string{"0-1000 admit 0 reused=0 first 0 last 0", "1000-1001", "1001-2001 admit 1 reused=0 first 1 last 1"},
		},
		{
			"no pass computes more of a request than the threshold",
			func(c *vllm.Config) { c.Rules.LongPrefillTokens = 4 },
			func(tree *prompt.Tree) []at { return []at{{At: 0, Request: request(tree, 0, 12, 1, 1, 2, 3)}} },
			[]string{"0-1000 admit 0 reused=0", "1000-2000", "2000-3000 first 0 last 0"},
		},
	} {
		cfg, tree := small(c.change)
		if got := run(t, cfg, c.run(tree)...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// Requests can be canceled under every rule, also from a planned pass.
func TestCancel(t *testing.T) {
	for name, rules := range flips() {
		t.Run(name, func(t *testing.T) {
			schedulertest.RunCancel(t, true, func(s schedulertest.Setup) scheduler.Core { return build(t, config(s, rules)) })
		})
	}
}
