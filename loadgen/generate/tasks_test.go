package generate

import (
	"bytes"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/loadgen/formats/write"
	"github.com/replay-llm/replay/sim"
)

// tasksConfig returns a configuration with tasks in which all settings are random.
func tasksConfig(requests int) Config {
	c := config("poisson", requests)
	c.Classes[0].Prefix = "system:tokens=256"
	c.Classes[0].Tasks = Tasks{
		Agents: "uniform:min=0,max=4", Calls: "uniform:min=0,max=6", Tool: "lognormal:mean=0.5,sigma=0.8", Fails: 0.2,
		Input: "uniform:min=200,max=400", Output: "uniform:min=20,max=60", ToolInput: "exponential:mean=300", Prefix: "groups:count=3,tokens=128",
	}
	return c
}

// records returns all requests of a configuration.
func records(t *testing.T, c Config) []formats.Record {
	t.Helper()
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var all []formats.Record
	for {
		var r formats.Record
		switch err := g.Next(&r); err {
		case nil:
			all = append(all, r)
		case io.EOF:
			return all
		default:
			t.Fatal(err)
		}
	}
}

// mean is a sum with the number of its values.
type mean struct{ sum, count float64 }

func (m *mean) add(x float64) { m.sum, m.count = m.sum+x, m.count+1 }

func (m *mean) check(t *testing.T, what string, want, within float64) {
	t.Helper()
	if got := m.sum / m.count; math.Abs(got-want) > within {
		t.Errorf("%s: %v at the mean of %v, want %v", what, got, m.count, want)
	}
}

// Generated tasks have the requested means. The test checks sub-agents per task, calls per sub-agent, the duration of
// a call, and the growth of prompts and answers. With failed calls the duration is multiplied by 1/(1-fails).
func TestTasksFollowTheirLaws(t *testing.T) {
	all := records(t, tasksConfig(60000))
	named := make(map[string]formats.Record)
	var agents, calls, delay, first, answer, grown, gap mean
	tasks, before := 0.0, 0.0
	for _, r := range all {
		named[r.Name] = r
		switch {
		case len(r.After) == 0:
			tasks++
			gap.add(r.At - before)
			before = r.At
		case strings.HasSuffix(r.Name, ".join"):
			agents.add(float64(len(r.After)))
			want := named[strings.TrimSuffix(r.Name, "join")+"plan"]
			tokens := want.Input + want.Output
			for _, e := range r.After {
				tokens += named[e.Name].Output
			}
			if r.Input != tokens {
				t.Fatalf("%s has %d prompt tokens, want %d: the plan, its answer and those of the sub-agents", r.Name, r.Input, tokens)
			}
		case r.After[0].Relation == "spawn":
			first.add(float64(r.Input))
			answer.add(float64(r.Output))
		default:
			e := r.After[0]
			last := named[e.Name]
			delay.add(e.Delay)
			answer.add(float64(r.Output))
			grown.add(float64(r.Input - last.Input - last.Output))
			if !slices.Equal(r.IDs[:len(last.IDs)], last.IDs) {
				t.Fatalf("%s does not begin with the prompt of %s", r.Name, e.Name)
			}
		}
	}
	calls = mean{delay.count, first.count}
	agents.count = tasks // tasks without sub-agents have no join
	agents.check(t, "sub-agents", 2, 0.05)
	calls.check(t, "calls", 3, 0.06)
	delay.check(t, "ms of a call", 500/(1-0.2), 15)
	first.check(t, "first prompts", 300, 2)
	answer.check(t, "answers", 40, 0.5)
	grown.check(t, "results", 300, 6)
	gap.check(t, "ms between tasks", 200, 8)
}

// First prompts of planners share their prefix, and so do first prompts of sub-agents. Tasks share no other blocks.
func TestTasksShareByRole(t *testing.T) {
	c := tasksConfig(500)
	begins := make(map[string]map[uint64]bool)
	of := make(map[uint64]string) // task by id, for ids outside of prefixes
	for _, r := range records(t, c) {
		role, shared := "agents", 128/c.Block
		if len(r.After) == 0 || strings.HasSuffix(r.Name, ".join") {
			role, shared = "planner", 256/c.Block
		}
		if begins[role] == nil {
			begins[role] = make(map[uint64]bool)
		}
		begins[role][r.IDs[0]] = true
		for i, id := range r.IDs {
			if i < shared {
				continue
			}
			if before, known := of[id]; known && before != string(r.Group) {
				t.Fatalf("block %d of %s is one of task %s, too", i, r.Name, before)
			}
			of[id] = string(r.Group)
		}
	}
	if len(begins["planner"]) != 1 || len(begins["agents"]) != 3 {
		t.Errorf("planners begin in %d ways and sub-agents in %d, want 1 and 3", len(begins["planner"]), len(begins["agents"]))
	}
}

// Generated tasks are unchanged if they are written as tasks or agentic_mooncake and read again.
func TestTasksReadAsMade(t *testing.T) {
	c := tasksConfig(300)
	want := workload(t, c)
	for _, to := range []string{"tasks", "agentic_mooncake"} {
		var text bytes.Buffer
		w, err := write.NewWriter(&text, to, c.Block)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records(t, c) {
			if err := w.Write(&r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		got, err := registry.Read(&text, "made.jsonl", formats.Options{TraceBlock: c.Block, Strict: true, Tasks: true, ReadLaw: ReadDraw})
		if err != nil {
			t.Fatal(err)
		}
		// arrivals are relative to the first; in agentic_mooncake, waiting requests have an arrival too
		sameTimes := slices.EqualFunc(got.Graph.Arrival, want.Graph.Arrival, func(a, b sim.Time) bool {
			return a == b-want.Graph.Arrival[0] || to == "agentic_mooncake" || math.IsNaN(float64(a)) && math.IsNaN(float64(b))
		})
		if !sameTimes || !reflect.DeepEqual(got.Graph.First, want.Graph.First) || !reflect.DeepEqual(got.Graph.Waits, want.Graph.Waits) {
			t.Errorf("%s: reads as another graph than was made", to)
		}
		for i := range want.Turns {
			if g, m := got.Turns[i], want.Turns[i]; g.Input != m.Input || g.Output != m.Output || g.Session != m.Session || g.Index != m.Index {
				t.Fatalf("%s: turn %d is %+v, want %+v", to, i, g, m)
			}
		}
	}
}

// Settings that tasks do not support are errors with the reason.
func TestTasksRefuse(t *testing.T) {
	for want, change := range map[string]func(*Config, *Class){
		"tool: requests are no tasks":         func(_ *Config, k *Class) { k.Tasks = Tasks{Tool: "1"} },
		"fails: requests are no tasks":        func(_ *Config, k *Class) { k.Tasks = Tasks{Fails: 0.5} },
		"fails is 1, must be 0 to 0.99":       func(_ *Config, k *Class) { k.Tasks.Fails = 1 },
		"fails is NaN, must be 0 to 0.99":     func(_ *Config, k *Class) { k.Tasks.Fails = math.NaN() },
		"arrive by themselves and not from":   func(c *Config, _ *Class) { c.Arrivals, c.Rate = "users:count=3", 0 },
		"a task is no conversation":           func(_ *Config, k *Class) { k.Turns = "2" },
		"instead of lengths from x.jsonl":     func(_ *Config, k *Class) { k.LengthsFrom = "x.jsonl" },
		"agents is 20000, must be 0 to 10000": func(_ *Config, k *Class) { k.Tasks.Agents = "20000" },
		"agent input is 0, must be 1 to":      func(_ *Config, k *Class) { k.Tasks.Input = "0" },
		"agent prefix is \"x\"":               func(_ *Config, k *Class) { k.Tasks.Prefix = "x" },
		"calls: \"many\": must be a number":   func(_ *Config, k *Class) { k.Tasks.Calls = "many" },
	} {
		c := tasksConfig(10)
		change(&c, &c.Classes[0])
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
}
