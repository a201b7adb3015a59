package registry

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
)

// zeroRows returns files with three requests. The second request has 0 output tokens.
func zeroRows() map[string]string {
	return map[string]string{
		"burstgpt":      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,G,10,4,14,API log\n6,G,10,0,10,API log\n7,G,10,4,14,API log",
		"azure":         azure + "2023-11-16 18:15:46.6,120,0\n2023-11-16 18:15:46.7,120,3\n",
		"vidur":         "arrived_at,num_prefill_tokens,num_decode_tokens\n1,10,4\n2,10,0\n3,10,4\n",
		"mooncake":      moon + "\n" + strings.Replace(moon, `"output_length":2`, `"output_length":0`, 1) + "\n" + moon,
		"vllm-bench":    `{"request_throughput":1,"input_lens":[1,2,3],"output_lens":[1,0,1],"start_times":[0,1,2]}`,
		formats.Agentic: `{"num_turns":2,"input_prompt_length":10,"assistant_response_length":[1,0],"tool_call_output_length":[1,1],"tool_call_latency":[1,2],"final_assistant_response_length":1}`,
	}
}

// Each reader of each format handles requests with 0 output tokens by ZeroOutput. Requests with 0 output tokens are
// dropped and counted, changed to one token, or rejected.
func TestZeroOutput(t *testing.T) {
	for name, text := range zeroRows() {
		for rule, want := range map[string]int{"": 2, "drop": 2, "one": 3, "error": -1} {
			for way, read := range map[string]func(s *formats.Stream) (int, error){
				"whole": func(s *formats.Stream) (int, error) {
					w, err := s.Workload()
					if err != nil {
						return 0, err
					}
					if w.CountDropped() != s.Dropped() {
						t.Errorf("%s: %v, want %v", name, w.CountDropped(), s.Dropped())
					}
					return len(w.Turns), nil
				},
				"row by row": func(s *formats.Stream) (n int, err error) {
					return n, formats.Each(s, func(*formats.Record) error { n++; return nil })
				},
			} {
				s, err := NewStream(strings.NewReader(text), "f", formats.Options{LeftOpen: formats.LeftOpen{ZeroOutput: rule}})
				if err != nil {
					t.Fatal(err)
				}
				got, err := read(s)
				dropped := loadgen.Dropped{}
				if want == 2 {
					dropped.ZeroOutput = 1
				}
				switch {
				case want < 0 && (err == nil || !strings.Contains(err.Error(), "the output is 0 tokens, must be at least 1")):
					t.Errorf("%s, %s, %s: %v", name, rule, way, err)
				case want >= 0 && (err != nil || got != want || s.Dropped() != dropped):
					t.Errorf("%s, %q, %s: %d requests, %+v dropped, %v", name, rule, way, got, s.Dropped(), err)
				}
			}
		}
	}
}

// The delay of a dropped turn is added to the next turn.
func TestZeroOutputOfAgents(t *testing.T) {
	w, err := Read(strings.NewReader(zeroRows()[formats.Agentic]), "f", formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Sessions) != 1 || len(w.Turns) != 2 || w.Turns[1].Delay != 3000 || w.Turns[1].Input != 13 || w.Turns[1].Index != 1 {
		t.Errorf("%+v", w.Turns)
	}
}

// A trace is rejected if all its requests are dropped.
func TestAllZeroOutput(t *testing.T) {
	_, err := Read(strings.NewReader(azure[:strings.Index(azure, "\n")]+"\n2023-11-16 18:15:46.6,120,0\n"), "f", formats.Options{})
	if err == nil || !strings.Contains(err.Error(), "1 dropped") {
		t.Error(err)
	}
}
