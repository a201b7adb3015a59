package scheduler

import "github.com/replay-llm/replay/sim"

// Canceler is a core that can let go of a request before its last token.
type Canceler interface {
	// Cancel takes a request out and gives back its KV blocks; the prefixes it
	// has cached stay cached. It is called between passes, and no run of before
	// may be cut after it. It replaces *p with a pass of no length with what
	// happened to the cache, and how full the engine is, and reports false,
	// having changed nothing, when the request is not on the core.
	Cancel(now sim.Time, id sim.RequestID, p *Pass) bool
}
