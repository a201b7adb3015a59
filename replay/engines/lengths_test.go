package engines

import (
	"testing"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
)

// TestLengths compares maximum sequence lengths with vLLM's frontend and SGLang's scheduler.
func TestLengths(t *testing.T) {
	vllm, sglang := engineargs.Default(), engineargs.Default()
	vllm.MaxLength, sglang.MaxLength, sglang.Engine = 4096, 4096, engineargs.SGLang
	drafts := sglang
	drafts.SGLang.Drafts.Name, drafts.SGLang.Drafts.Algorithm = "EAGLE", scheduler.ByHead
	drafts.SGLang.Drafts.Steps, drafts.SGLang.Drafts.TopK, drafts.SGLang.Drafts.Tokens = 5, 4, 8
	role := func(a engineargs.Args, r scheduler.Role, length int) engineargs.Args {
		a.Role, a.MaxLength = r, length
		return a
	}
	one := func(a engineargs.Args) Topology { return Topology{Pools: []Pool{{Engine: a, Count: 1}}} }
	two := func(prefill, decode int) Topology {
		return Topology{Pools: []Pool{
			{Role: scheduler.Prefill, Engine: role(vllm, scheduler.Prefill, prefill), Count: 1},
			{Role: scheduler.Decode, Engine: role(vllm, scheduler.Decode, decode), Count: 1},
		}}
	}
	for _, c := range []struct {
		name   string
		of     Topology
		prompt int // maximum length
		whole  int
	}{
		{"vllm", one(vllm), 4095, 4096},
		{"sglang", one(sglang), 4089, 4094},
		{"sglang with drafts", one(drafts), 4075, 4094},
		{"the decode pool ends answers", two(8192, 4096), 4095, 4096},
		{"the prefill pool refuses prompts alone", two(1000, 4096), 999, 4096},
		{"of kinds the shortest", Topology{Pools: []Pool{{Mix: []Kind{{Name: "a", Engine: vllm, Count: 1}, {Name: "b", Engine: role(vllm, 0, 100), Count: 1}}, Count: 2}}}, 99, 100},
	} {
		l := NewLengths(&c.of)
		if _, refused := l.Fit(c.prompt+1, 1); refused == nil {
			t.Errorf("%s: a prompt of %d tokens is taken, want at most %d", c.name, c.prompt+1, c.prompt)
		}
		n, refused := l.Fit(c.prompt, 1<<20)
		if refused != nil || c.prompt+n != c.whole {
			t.Errorf("%s: a prompt of %d tokens and an answer of %d, %v, want %d in all", c.name, c.prompt, n, refused, c.whole)
		}
		if n, _ := l.Fit(10, 20); n != 20 {
			t.Errorf("%s: a short answer has %d tokens", c.name, n)
		}
	}
	unbounded := one(engineargs.Default())
	l := NewLengths(&unbounded)
	if n, refused := l.Fit(1<<30, 1<<20); n != 1<<20 || refused != nil {
		t.Errorf("without a longest sequence: %d, %v", n, refused)
	}
}
