package mocker

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/replay-llm/replay/live/conformance"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/replay/engineargs"
)

// Requests with the same prompt and seed get the same tokens, and so do requests at temperature 0. A different prompt
// or seed changes the tokens. Without a seed, each answer differs.
func TestSeeds(t *testing.T) {
	e := start(t, Options{Engine: quick(engineargs.VLLM)})
	draw := func(prompt int, options string) string {
		rq := ask(words(prompt, 5), 8)
		if options != "" {
			rq.SamplingOptions = json.RawMessage(options)
		}
		tokens, _, err := answer(e, rq, conformance.MockContext(), nil)
		if err != nil || len(tokens) != 8 {
			t.Fatalf("%s: %v, %v", options, tokens, err)
		}
		return fmt.Sprint(tokens)
	}
	for _, c := range []struct {
		prompt  [2]int
		options [2]string
		same    bool
	}{
		{[2]int{1, 1}, [2]string{`{"seed":7}`, `{"seed":7}`}, true},
		{[2]int{1, 1}, [2]string{`{"seed":7}`, `{"seed":7,"temperature":0.5}`}, true},
		{[2]int{1, 1}, [2]string{`{"seed":7}`, `{"seed":8}`}, false},
		{[2]int{1, 2}, [2]string{`{"seed":7}`, `{"seed":7}`}, false},
		{[2]int{1, 1}, [2]string{`{"temperature":0}`, `{"temperature":0,"seed":3}`}, true},
		{[2]int{1, 2}, [2]string{`{"temperature":0}`, `{"temperature":0}`}, false},
		{[2]int{1, 1}, [2]string{"", ""}, false},
		{[2]int{1, 1}, [2]string{`{"temperature":1}`, `{"temperature":1}`}, false},
	} {
		a, b := draw(c.prompt[0], c.options[0]), draw(c.prompt[1], c.options[1])
		if (a == b) != c.same {
			t.Errorf("%s and %s of prompts %v: %s and %s", c.options[0], c.options[1], c.prompt, a, b)
		}
	}
	rq := ask(words(1, 5), 8)
	rq.SamplingOptions = json.RawMessage(`{"seed":"x"}`)
	if _, _, err := answer(e, rq, conformance.MockContext(), nil); err == nil {
		t.Error("a seed that is none is taken")
	}
}

// An answer that is continued from its first part, for example on another worker, equals the uninterrupted answer.
// The test uses a seed, temperature 0, and one request id.
func TestGoesOn(t *testing.T) {
	one, other := start(t, Options{Engine: quick(engineargs.VLLM)}), start(t, Options{Engine: quick(engineargs.VLLM)})
	for _, options := range []string{`{"seed":7}`, `{"temperature":0}`, ""} {
		rc := conformance.MockContext()
		draw := func(e *Engine, prompt []uint32, n int) []uint32 {
			rq := ask(prompt, uint32(n))
			if options != "" {
				rq.SamplingOptions = json.RawMessage(options)
			}
			tokens, _, err := answer(e, rq, rc, nil)
			if err != nil {
				t.Fatal(err)
			}
			return tokens
		}
		whole := draw(one, words(1, 5), 12)
		for cut := 1; cut < 12; cut += 3 {
			rest := draw(other, append(words(1, 5), whole[:cut]...), 12-cut)
			if !slices.Equal(rest, whole[cut:]) {
				t.Errorf("%s after %d tokens: %v, want %v", options, cut, rest, whole[cut:])
			}
		}
	}
}

// An answer without a limit ends at its natural length or at the end of the context. With ignore_eos the answer ends
// only at the end of the context.
func TestEndsByItself(t *testing.T) {
	e := start(t, Options{Engine: quick(engineargs.VLLM), ContextLength: 64})
	yes, least, most := true, uint32(20), uint32(9)
	for _, c := range []struct {
		prompt int
		stop   engine.StopConditions
		tokens int
		why    engine.FinishReason
	}{
		{5, engine.StopConditions{}, 16, engine.FinishEOS},
		{5, engine.StopConditions{MinTokens: &least}, 20, engine.FinishEOS},
		{5, engine.StopConditions{IgnoreEOS: &yes}, 59, engine.FinishLength},
		{60, engine.StopConditions{}, 4, engine.FinishLength},
		{5, engine.StopConditions{MaxTokens: &most}, 9, engine.FinishLength},
	} {
		tokens, last, err := answer(e, &engine.Request{TokenIDs: words(0, c.prompt), StopConditions: c.stop}, conformance.MockContext(), nil)
		if err != nil || len(tokens) != c.tokens || last.FinishReason != c.why {
			t.Errorf("%+v: %d tokens, %+v, %v, want %d, %s", c, len(tokens), last, err, c.tokens, c.why)
		}
		if slices.ContainsFunc(tokens, func(t uint32) bool { return t < 1000 || t >= 2000 }) {
			t.Errorf("tokens %v, want words", tokens)
		}
	}
}
