package timing

import "testing"

// A pass that is as wide as two other passes takes as long as the longer of them, for models of whole passes and of
// parts.
func TestWiden(t *testing.T) {
	prompt := &Step{Tokens: 900, Requests: 1, Pairs: 405000, Prompts: 1, PromptReached: 900, Active: 900, Capacity: 9000}
	decode := &Step{Tokens: 4, Requests: 4, Context: 4000, Decodes: 4, DecodeLength: 4000, Active: 4000, Capacity: 9000}
	for _, path := range []string{"", "roofline:h100/llama-3.1-8b"} {
		model, err := ParseSource(path).Load()
		if err != nil {
			t.Fatal(err)
		}
		c := Clock{Model: model, Speedup: 1, DecodeSpeedup: 1}
		var both Step
		both.Widen(prompt)
		both.Widen(decode)
		wide, err := c.Step(&both)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Step{prompt, decode} {
			if ms, err := c.Step(s); err != nil || !(ms > 0) || wide < ms {
				t.Errorf("%q: %+v takes %v ms (%v), as wide as both %v", path, *s, ms, err, wide)
			}
		}
	}
}
