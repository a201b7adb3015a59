package mocker

import (
	"sync"
	"testing"

	"github.com/replay-llm/replay/live/conformance"
	"github.com/replay-llm/replay/replay/engineargs"
)

// Memory grows with the KV cache and not with the number of distinct prompts: the tree drops prompts that are not
// cached.
func TestForgetsPrompts(t *testing.T) {
	for _, kind := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang, engineargs.TRTLLM} {
		for _, events := range []bool{false, true} {
			a := quick(kind)
			a.Speedup, a.Blocks = 5000, 4000
			e := start(t, Options{Engine: a, KVEvents: events})
			const rounds, atOnce, tokens = 60, 8, 6000 // the rounds store 180,000 blocks
			for round := range rounds {
				var all sync.WaitGroup
				for i := range atOnce {
					all.Go(func() {
						if _, _, err := answer(e, ask(words(tokens*(round*atOnce+i), tokens), 2), conformance.MockContext(), nil); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
			}
			drained(t, e)
			if n := e.tree.Len(); n > 20_000 {
				t.Errorf("%v, events %v: %d nodes for a cache of %d blocks", kind, events, n, a.Blocks)
			}
		}
	}
}
