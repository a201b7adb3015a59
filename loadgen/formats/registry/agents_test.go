package registry

import (
	"errors"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/sim/prompt"
)

func readAgents(text string, o formats.Options) (*loadgen.Workload, error) {
	if o.TraceBlock == 0 {
		o.TraceBlock = 64
	}
	o.Format = formats.Agentic
	return Read(strings.NewReader(text), "agents.jsonl", o)
}

const agent = `{"num_turns":2,"input_prompt_length":100,"assistant_response_length":[10,20],"tool_call_output_length":[30,40], "tool_call_latency":[0.5,1.25],"final_assistant_response_length":5}`

func TestReadsAgents(t *testing.T) {
	const single = `{"num_turns":0,"input_prompt_length":300,"assistant_response_length":[],"tool_call_output_length":[],"tool_call_latency":[],"final_assistant_response_length":7,"more":{}}`
	for _, c := range []struct {
		name, text string
		o          formats.Options
		want       string
	}{
		{"a worked example", agent, formats.Options{}, `1 applied_compute_agentic_session_1/0 in=100 out=10 ids=[1 2]
1 applied_compute_agentic_session_1/1 in=140 out=20 ids=[1 2 3] delay=500
1 applied_compute_agentic_session_1/2 in=200 out=5 ids=[1 2 3 4] delay=1250
`},
		{"no tools is one turn; ids count on over the file", "\n" + single + "\n" + agent, formats.Options{}, `2 applied_compute_agentic_session_2/0 in=300 out=7 ids=[1 2 3 4 5]
3 applied_compute_agentic_session_3/0 in=100 out=10 ids=[6 7]
3 applied_compute_agentic_session_3/1 in=140 out=20 ids=[6 7 8] delay=500
3 applied_compute_agentic_session_3/2 in=200 out=5 ids=[6 7 8 9] delay=1250
`},
		// The group of a session depends on its line number, with blank lines counted. 2.5 shared blocks of 5 are
		// rounded up to 3.
		{"groups share", single + "\n\n" + single + "\n" + single, formats.Options{SharedRatio: 0.5, Groups: 2}, `1 applied_compute_agentic_session_1/0 in=300 out=7 ids=[11979012058852098048 11979012058852098049 11979012058852098050 1 2]
3 applied_compute_agentic_session_3/0 in=300 out=7 ids=[11979012058852098048 11979012058852098049 11979012058852098050 3 4]
4 applied_compute_agentic_session_4/0 in=300 out=7 ids=[11979012063147065344 11979012063147065345 11979012063147065346 5 6]
`},
		{"without groups nothing is shared", single, formats.Options{SharedRatio: 1}, "1 applied_compute_agentic_session_1/0 in=300 out=7 ids=[1 2 3 4 5]\n"},
		{"without a ratio nothing is shared", single, formats.Options{Groups: 3}, "1 applied_compute_agentic_session_1/0 in=300 out=7 ids=[1 2 3 4 5]\n"},
		{"all is shared, but only of the first prompt", agent, formats.Options{SharedRatio: 1, Groups: 1}, `1 applied_compute_agentic_session_1/0 in=100 out=10 ids=[11979012058852098048 11979012058852098049]
1 applied_compute_agentic_session_1/1 in=140 out=20 ids=[11979012058852098048 11979012058852098049 1] delay=500
1 applied_compute_agentic_session_1/2 in=200 out=5 ids=[11979012058852098048 11979012058852098049 1 2] delay=1250
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := readAgents(c.text, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := dump(w); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			checkLinks(t, w)
			if _, err := loadgen.NewFeed(w, loadgen.Intern(w, prompt.NewTree(64, 64, prompt.Options{})), loadgen.Admission{Speedup: 1}); err == nil {
				t.Error("trace mode takes a format without times")
			}
		})
	}
}

func TestRefusesAgents(t *testing.T) {
	swap := func(old, new string) string {
		s := strings.Replace(agent, old, new, 1)
		if s == agent {
			t.Fatalf("%q is not in the record", old)
		}
		return s
	}
	for _, c := range []struct{ text, want string }{
		{"", "agents.jsonl: the file is empty, must be at least one agent"},
		{"[]", `agents.jsonl:1: invalid JSON: '[' at byte 1, must be "{"`},
		{swap(`"num_turns":2,`, ``), "agents.jsonl:1: num_turns is missing"},
		{swap(`"final_assistant_response_length":5`, `"x":5`), "agents.jsonl:1: final_assistant_response_length is missing"},
		{swap(`"num_turns":2`, `"num_turns":null`), "agents.jsonl:1: num_turns is null, must be a whole number >= 0"},
		{swap(`"num_turns":2`, `"num_turns":2.0`), "agents.jsonl:1: num_turns is 2.0, must be a whole number >= 0"},
		{swap(`"num_turns":2`, `"num_turns":2,"num_turns":2`), "agents.jsonl:1: num_turns is given twice"},
		{swap(`[10,20]`, `[10]`), "agents.jsonl:1: assistant_response_length has 1 numbers, expected num_turns = 2"},
		{swap(`[30,40]`, `[]`), "agents.jsonl:1: tool_call_output_length has 0 numbers, expected num_turns = 2"},
		{swap(`[0.5,1.25]`, `[1,2,3]`), "agents.jsonl:1: tool_call_latency has 3 numbers, expected num_turns = 2"},
		{swap(`[0.5,1.25]`, `[1,-2]`), "agents.jsonl:1: tool_call_latency is -2 at place 2, must be finite milliseconds >= 0"},
		{swap(`[0.5,1.25]`, `[1e307,2]`), "agents.jsonl:1: tool_call_latency is 1e+307 at place 1, must be finite milliseconds >= 0"},
		{swap(`[0.5,1.25]`, `[1,"2"]`), `agents.jsonl:1: tool_call_latency is "2", must be a number`},
		{swap(`[0.5,1.25]`, `null`), `agents.jsonl:1: tool_call_latency is null, must be a list of numbers`},
		{swap(`[10,20]`, `[10,2.5]`), `agents.jsonl:1: assistant_response_length is […, 2.5, …] at place 2, must be whole numbers >= 0`},
		{swap(`:100`, `:0`), "agents.jsonl:1: input_prompt_length is 0, must be > 0"},
		{swap(`[30,40]`, `[30,18446744073709551615]`), "agents.jsonl:1: the prompt grows by 18446744073709551615 tokens in turn 2, must be at most 2147483647 in all"},
		{swap(`:100`, `:2147483640`), "agents.jsonl:1: the prompt grows by 10 tokens in turn 1, must be at most 2147483647 in all"},
		{swap(`:100`, `:2147480000`), "agents.jsonl:1: the prompt is 33554375 blocks of 64 tokens, must be at most 16777216"},
		{swap(`:5}`, `:2147483648}`), "agents.jsonl:1: an answer's length is 2147483648, must be at most 2147483647"},
		{"\n" + agent + "x", `agents.jsonl:2: invalid JSON: 'x' at byte 180, must be the end of the line`},
	} {
		_, err := readAgents(c.text, formats.Options{})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
		if syntax := (*loadgen.SyntaxError)(nil); !errors.As(err, &syntax) {
			t.Errorf("%s: error is a %T, want a *loadgen.SyntaxError", c.text, err)
		}
	}
	for _, c := range []struct {
		o    formats.Options
		want string
	}{
		{formats.Options{TraceBlock: -1}, "trace block size is -1, must be > 0"},
		{formats.Options{SharedRatio: 1.5}, "shared prefix ratio is 1.5, must be 0 to 1"},
		{formats.Options{SharedRatio: -0.5}, "shared prefix ratio is -0.5, must be 0 to 1"},
		{formats.Options{Groups: -1}, "prefix groups are -1, must be >= 0"},
	} {
		if _, err := readAgents(agent, c.o); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// The first key of a row that is a field of only one format decides between agents and Mooncake rows.
func TestDetectsAgents(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{agent, formats.Agentic},
		{"\n \t\n\u2003\n  {\"num_turns\" : 1}\n", formats.Agentic},
		{`{"model":{"a":[1,"}"]},"tool_call_latency":[]}`, formats.Agentic},
		{`{"timestamp":0,"num_turns":1,"output_length":1,"hash_ids":[1]}`, formats.Mooncake},
		{`{"hash_ids":[1],"model":{"num_turns":1}}`, formats.Mooncake},
		{`["a",0,null,5,5,[1]]`, formats.Mooncake},
	} {
		s, err := NewStream(strings.NewReader(c.text), "f", formats.Options{})
		if err != nil || s.Format != c.want {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
}

// An agent with a too long prompt is rejected, even if it is the first agent of the file.
func TestRefusesALongFirstAgent(t *testing.T) {
	_, err := readAgents(`{"num_turns":0,"input_prompt_length":2147483647,"assistant_response_length":[],"tool_call_output_length":[],"tool_call_latency":[],"final_assistant_response_length":1}`, formats.Options{})
	if err == nil || !strings.Contains(err.Error(), "must be at most 16777216") {
		t.Errorf("%v, want a bound on blocks", err)
	}
}
