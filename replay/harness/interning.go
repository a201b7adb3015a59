package harness

import "github.com/replay-llm/replay/sim/prompt"

// interning is a goroutine that adds the prompts of a workload to the tree.
type interning struct {
	done    chan struct{} // closed after the other fields are set
	prompts *prompt.List
	broken  any // value of a panic of the goroutine; nil: none
}

// internLater starts a goroutine that adds the prompts.
func (r *Run) internLater() *interning {
	x := &interning{done: make(chan struct{})}
	go func() {
		defer close(x.done)
		defer func() { x.broken = recover() }()
		x.prompts = r.intern(r.Use.Tree)
	}()
	return x
}

// WaitPrompts waits until all prompts are in the tree, and passes them to the feed. WaitPrompts does nothing without
// PromptsLater.
func (r *Run) WaitPrompts() {
	x := r.interning
	if x == nil {
		return
	}
	if <-x.done; x.broken != nil {
		panic(x.broken)
	}
	r.Feed.SetPrompts(x.prompts)
	r.interning = nil
}
