package mocker

import (
	"sync"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
	"github.com/replay-llm/replay/sim/prompt"
)

// prompts turns tokens into paths of the scheduler's prompt tree, which only the
// worker's goroutine may touch: blocks are hashed where requests come in, and
// interned there.
type prompts struct {
	tree *prompt.Tree

	mu     sync.Mutex
	hashes map[sim.RequestID][]uint64 // of requests on their way to the worker
}

func newPrompts(t *prompt.Tree) *prompts {
	return &prompts{tree: t, hashes: make(map[sim.RequestID][]uint64)}
}

// addPrompt hashes the blocks of a request's prompt, the last of which may not be
// full.
func (p *prompts) addPrompt(id sim.RequestID, tokens []uint32) {
	size := p.tree.BlockTokens()
	hashes := make([]uint64, 0, (len(tokens)+size-1)/size)
	for len(tokens) > 0 {
		n := min(size, len(tokens))
		hashes = append(hashes, blockhash.Tokens(tokens[:n]))
		tokens = tokens[n:]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hashes[id] = hashes
}

// dropPrompt forgets a request that will not come.
func (p *prompts) dropPrompt(id sim.RequestID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.hashes, id)
}

// internPrompt gives a request its prompt. The worker calls it.
func (p *prompts) internPrompt(q *sim.Request) {
	p.mu.Lock()
	hashes := p.hashes[q.ID]
	delete(p.hashes, q.ID)
	p.mu.Unlock()
	q.Prompt = p.tree.Add(hashes, q.InputTokens)
}
