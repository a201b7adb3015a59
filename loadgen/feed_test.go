package loadgen_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	. "github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

func newTestFeed(t testing.TB, w *Workload, a Admission) *Feed {
	t.Helper()
	block := max(w.TraceBlock, 64)
	f, err := NewFeed(w, Intern(w, prompt.NewTree(block, block, prompt.Options{})), a)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// transcript runs a script of steps on a feed:
//
//	take now inFlight   take what arrives: "id line/turn@at …"
//	next now inFlight   the next arrival, or none
//	end id now          the request finishes
//	done
func transcript(t *testing.T, f *Feed, script string) string {
	t.Helper()
	var b strings.Builder
	for step := range strings.Lines(script) {
		step = strings.TrimSpace(step)
		var now sim.Time
		var n int
		switch {
		case step == "done":
			fmt.Fprintf(&b, "done: %v\n", f.Done())
		case scans(step, "take %g %d", &now, &n):
			fmt.Fprintf(&b, "%s:", step)
			for _, a := range f.Take(now, n, nil) {
				fmt.Fprintf(&b, " %d line %d/%d@%v", a.Request.ID, a.Request.Line, a.Request.Turn, float64(a.At))
			}
			b.WriteByte('\n')
		case scans(step, "next %g %d", &now, &n):
			at, ok := f.Next(now, n)
			if !ok {
				fmt.Fprintf(&b, "%s: none\n", step)
				continue
			}
			fmt.Fprintf(&b, "%s: %v\n", step, float64(at))
		case scans(step, "end %d %g", &n, &now):
			if err := f.Finish(sim.RequestID(n), now); err != nil {
				fmt.Fprintf(&b, "%s: %v\n", step, err)
			}
		default:
			t.Fatalf("no step: %q", step)
		}
	}
	return b.String()
}

func scans(step, format string, into ...any) bool {
	n, err := fmt.Sscanf(step, format, into...)
	return err == nil && n == len(into)
}

// twoSessions has two sessions: one with a given delay and one with an inferred delay. The tests replay it on one and
// two workers, in open and closed loop.
const twoSessions = `{"session_id":"a","timestamp":100,"input_length":64,"output_length":2,"hash_ids":[1]}
{"session_id":"b","timestamp":110,"input_length":64,"output_length":2,"hash_ids":[7]}
{"session_id":"a","delay":20,"input_length":128,"output_length":2,"hash_ids":[1,2]}
{"session_id":"b","timestamp":125,"input_length":128,"output_length":1,"hash_ids":[7,8]}
`

const unsorted = `{"timestamp":5,"input_length":128,"output_length":2,"hash_ids":[1,2]}
{"timestamp":0,"input_length":100,"output_length":2,"hash_ids":[3,4]}
{"timestamp":5,"input_length":64,"output_length":3,"hash_ids":[5]}
{"timestamp":5,"input_length":128,"output_length":2,"hash_ids":[3,4]}
{"timestamp":30,"input_length":128,"output_length":1,"hash_ids":[3,6]}
`

func TestFeeds(t *testing.T) {
	for _, c := range []struct {
		name, trace  string
		a            Admission
		independent  bool
		script, want string
	}{
		{"sessions in open loop", twoSessions, Admission{Speedup: 1}, false, `
			next 0 0
			take 0 0
			next 0 1
			take 23.218181 1
			next 23.218181 2
			end 0 46.442955000000005
			end 1 52.189548
			next 52.189548 0
			take 66.44295500000001 0
			next 66.44295500000001 1
			take 89.66443300000002 1
			done
			end 2 112
			next 112 1
			end 3 112
			done`, `
next 0 0: 0
take 0 0: 0 line 1/0@0
next 0 1: 10
take 23.218181 1: 1 line 2/0@10
next 23.218181 2: none
next 52.189548 0: 66.44295500000001
take 66.44295500000001 0: 2 line 3/1@66.44295500000001
next 66.44295500000001 1: 67.189548
take 89.66443300000002 1: 3 line 4/1@67.189548
done: false
next 112 1: none
done: true
`},
		{"sessions at twice the speed: delays shrink too", twoSessions, Admission{Speedup: 2}, false, `
			take 1000 0
			end 0 46.442955000000005
			end 1 52.189548
			take 1000 0`, `
take 1000 0: 0 line 1/0@0 1 line 2/0@5
take 1000 0: 2 line 3/1@56.442955000000005 3 line 4/1@59.689548
`},
		{"sessions in closed loop, one worker: stamped when taken", twoSessions,
			Admission{Mode: Concurrency, MaxInFlight: 2, Speedup: 0}, false, `
			next 0 0
			take 0 0
			next 0 2
			end 0 29.951576000000003
			end 1 29.951576000000003
			take 29.951576000000003 0
			next 29.951576000000003 0
			take 44.951576 0
			next 44.951576 1
			next 44.951576 2
			end 2 68.17305400000001
			next 68.17305400000001 0
			take 68.17305400000001 0
			end 3 97.14442100000001
			done`, `
next 0 0: 0
take 0 0: 0 line 1/0@0 1 line 2/0@0
next 0 2: none
take 29.951576000000003 0:
next 29.951576000000003 0: 44.951576
take 44.951576 0: 2 line 4/1@44.951576
next 44.951576 1: 49.951576
next 44.951576 2: none
next 68.17305400000001 0: 68.17305400000001
take 68.17305400000001 0: 3 line 3/1@68.17305400000001
done: true
`},
		{"a flat queue sorts, ties in file order, and shifts to 0", unsorted, Admission{Speedup: 1}, true, `
			next 0 0
			take 0 0
			next 0 1
			take 4.9 1
			take 5 1
			next 7 4
			next 40 0
			done
			take 40 0
			next 40 1
			done`, `
next 0 0: 0
take 0 0: 0 line 2/0@0
next 0 1: 5
take 4.9 1:
take 5 1: 1 line 1/0@5 2 line 3/0@5 3 line 4/0@5
next 7 4: 30
next 40 0: 40
done: false
take 40 0: 4 line 5/0@30
next 40 1: none
done: true
`},
		{"single turns in closed loop: file order, no times", unsorted, Admission{Mode: Concurrency, MaxInFlight: 2}, false, `
			take 0 0
			take 0 2
			end 1 3
			next 3 1
			take 3 1
			next 3 2
			end 0 4
			end 2 4
			take 4 0
			done
			end 3 5
			end 4 5
			done`, `
take 0 0: 0 line 1/0@0 1 line 2/0@0
take 0 2:
next 3 1: 3
take 3 1: 2 line 3/0@3
next 3 2: none
take 4 0: 3 line 4/0@4 4 line 5/0@4
done: false
done: true
`},
		{"only what is in flight can finish, and once", twoSessions, Admission{Speedup: 1}, false, `
			end 0 1
			take 0 0
			end 0 1
			end 0 2
			end -1 2`, `
end 0 1: request 0 finished at 1 ms, but it is not in flight
take 0 0: 0 line 1/0@0
end 0 2: request 0 finished at 2 ms, but it is not in flight
end -1 2: request -1 finished at 2 ms, but it is not in flight
`},
		{"a flat queue knows what has arrived", unsorted, Admission{Speedup: 1}, true, `
			take 0 0
			end 0 1
			end 1 1`, `
take 0 0: 0 line 2/0@0
end 1 1: request 1 finished at 1 ms, but only 1 have arrived
`},
		{"sessions ready at one instant go by order in the file",
			strings.ReplaceAll(twoSessions, "110", "100"), Admission{Speedup: 1}, false, `
			take 0 0
			end 1 10
			end 0 15
			take 35 0`, `
take 0 0: 0 line 1/0@0 1 line 2/0@0
take 35 0: 2 line 3/1@35 3 line 4/1@35
`},
		{"disaggregated sessions without times start at 0",
			strings.ReplaceAll(strings.ReplaceAll(twoSessions, `"timestamp":100,`, ""), `"input_length":64,"output_length":2,"hash_ids":[7]`, `"input_length":0,"output_length":2,"hash_ids":[]`),
			Admission{Speedup: 1, Disaggregated: true}, false, `
			take 0 0`, `
take 0 0: 0 line 1/0@0 1 line 2/0@0
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newTestFeed(t, mustRead(t, c.trace), c.a)
			if f.Independent() != c.independent {
				t.Errorf("independent is %v, want %v", f.Independent(), c.independent)
			}
			if got := "\n" + transcript(t, f, strings.TrimSpace(c.script)); got != c.want {
				t.Errorf("got%swant%s", got, c.want)
			}
		})
	}
}

func TestRefusesWorkloads(t *testing.T) {
	const (
		untimed  = `{"output_length":1,"hash_ids":[1]}` + "\n"
		empty    = `{"timestamp":0,"input_length":0,"output_length":1,"hash_ids":[]}` + "\n"
		zero     = `{"timestamp":0,"input_length":0,"output_length":1,"hash_ids":[1]}` + "\n"
		early    = `{"timestamp":-5,"output_length":1,"hash_ids":[1]}` + "\n"
		wide     = `{"timestamp":-1e13,"output_length":1,"hash_ids":[1]}` + "\n" + `{"timestamp":1e13,"output_length":1,"hash_ids":[1]}` + "\n"
		sessions = `{"session_id":"s","output_length":1,"hash_ids":[1]}` + "\n" + `{"session_id":"s","delay":1e13,"output_length":1,"hash_ids":[]}` + "\n"
		fine     = ""
	)
	trace := Admission{Speedup: 1}
	closed := Admission{Mode: Concurrency, MaxInFlight: 1}
	apart := func(a Admission) Admission { a.Disaggregated = true; return a }
	for _, c := range []struct {
		name, text string
		a          Admission
		want       string
	}{
		{"no timestamp", untimed, trace, `day.jsonl:1: session "request_1" has no timestamp, which trace mode needs`},
		{"no timestamp, flat, disaggregated", untimed, apart(trace), `day.jsonl:1: session "request_1" has no timestamp, which trace mode needs`},
		{"no timestamp, closed loop", untimed, closed, fine},
		{"sessions without timestamps", sessions, trace, `day.jsonl:1: session "s" has no timestamp, which trace mode needs`},
		{"sessions without timestamps and ids, disaggregated", sessions, apart(trace), fine},
		{"second turn without ids", sessions, closed, `day.jsonl:2: input_length is 0 because hash_ids is empty, must be > 0`},
		{"second turn without ids, disaggregated", sessions, apart(closed), fine},
		{"no ids", empty, trace, `day.jsonl:1: input_length is 0 because hash_ids is empty, must be > 0`},
		{"no ids, flat, disaggregated", empty, apart(trace), `day.jsonl:1: input_length is 0 because hash_ids is empty, must be > 0`},
		{"no ids, closed loop, disaggregated", empty, apart(closed), fine},
		{"no input", zero, closed, `day.jsonl:1: input_length is 0, must be > 0`},
		{"negative start", early, closed, `day.jsonl:1: timestamp is -5, must be >= 0 in concurrency mode`},
		{"negative start, disaggregated", early, apart(closed), fine},
		{"negative start, shifted", early, trace, fine},
		{"too wide", wide, Admission{Speedup: 1e-300}, `day.jsonl:2: timestamp 1e+13 becomes +Inf after shift and speed-up, must be a finite instant`},
		{"slowed too much", sessions, apart(Admission{Speedup: 1e-300}), `day.jsonl:2: delay is +Inf, must be finite and >= 0`},
		{"speed-up 0", early, Admission{}, `arrival speed-up ratio is 0, must be a finite number > 0`},
		{"speed-up negative", early, Admission{Speedup: -1}, `arrival speed-up ratio is -1, must be a finite number > 0`},
		{"speed-up NaN", early, Admission{Speedup: math.NaN()}, `arrival speed-up ratio is NaN, must be a finite number > 0`},
		{"speed-up infinite", early, Admission{Speedup: math.Inf(1)}, `arrival speed-up ratio is +Inf, must be a finite number > 0`},
		{"speed-up before the rest", empty, Admission{}, `arrival speed-up ratio is 0, must be a finite number > 0`},
		{"nothing in flight", early, Admission{Mode: Concurrency}, `requests in flight are 0, must be at least 1`},
		{"no mode", early, Admission{Mode: 7}, `admission mode is Mode(7), must be trace or concurrency`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := mustRead(t, c.text)
			_, err := NewFeed(w, noPrompts(len(w.Turns)), c.a)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// A feed that has run for a while allocates memory for requests in chunks, and no memory per request.
func TestFeedsHardlyAllocate(t *testing.T) {
	w, err := NewSynthetic(Synthetic{Requests: 20000, Input: 100, Output: 1, Interval: 1, Turns: 1})
	if err != nil {
		t.Fatal(err)
	}
	prompts := noPrompts(len(w.Turns))
	closed := Admission{Mode: Concurrency, MaxInFlight: 4}
	feeds := map[string]*Feed{
		"driver": NewSessionFeed(w, prompts, closed),
		"flat":   NewFlatFeed(w, prompts, closed),
	}
	for name, f := range feeds {
		dst := make([]Arrival, 0, 4)
		got := testing.AllocsPerRun(1000, func() {
			dst = f.Take(0, 0, dst[:0])
			for _, a := range dst {
				if err := f.Finish(a.Request.ID, 0); err != nil {
					t.Fatal(err)
				}
			}
		})
		if got > 0.1 {
			t.Errorf("%s: %v allocations for four requests, want none", name, got)
		}
	}
}

// noPrompts returns prompts for tests that do not read prompts.
func noPrompts(count int) *prompt.List {
	return prompt.NewTree(1<<20, 1<<20, prompt.Options{}).AddSynthetic(count, 1)
}

func TestAgentsArriveInClosedLoop(t *testing.T) {
	w, err := registry.Read(strings.NewReader(agent), "agents.jsonl", formats.Options{Format: formats.Agentic, TraceBlock: 64})
	if err != nil {
		t.Fatal(err)
	}
	f := newTestFeed(t, w, Admission{Mode: Concurrency, MaxInFlight: 1})
	const want = `take 0 0: 0 line 1/0@0
next 75.489904 0: 575.489904
take 575.489904 0: 1 line 1/1@575.489904
next 708.145477 0: 1958.145477
`
	got := transcript(t, f, `take 0 0
		end 0 75.489904
		next 75.489904 0
		take 575.489904 0
		end 1 708.145477
		next 708.145477 0`)
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

const agent = `{"num_turns":2,"input_prompt_length":100,"assistant_response_length":[10,20],"tool_call_output_length":[30,40], "tool_call_latency":[0.5,1.25],"final_assistant_response_length":5}`

// The memory of a reclaimed request is reused for the next request, with new contents.
func TestReclaim(t *testing.T) {
	for _, a := range []Admission{{Mode: Concurrency, MaxInFlight: 1}, {Speedup: 1}} {
		w := mustRead(t, twoSessions)
		f := newTestFeed(t, w, a)
		now := sim.Time(0)
		var memory *sim.Request
		for id := sim.RequestID(0); !f.Done(); id++ {
			at, ok := f.Next(now, 0)
			if !ok {
				t.Fatalf("request %d does not come", id)
			}
			now = at
			got := f.Take(now, 0, nil)
			if len(got) != 1 || got[0].Request.ID != id || got[0].Request.OutputTokens == 0 {
				t.Fatalf("%+v, want request %d", got, id)
			}
			if memory != nil && got[0].Request != memory {
				t.Errorf("request %d has other memory", id)
			}
			memory = got[0].Request
			if err := f.Finish(id, now); err != nil {
				t.Fatal(err)
			}
			f.Reclaim(memory)
		}
	}
}
