package policy

import (
	"errors"

	"github.com/replay-llm/replay/router"
)

// Choice is how the requests of a pool are routed: a Name, a *Picker, a *Text or a *Process.
type Choice interface {
	// ListSignals returns the signals that the policy looks at.
	ListSignals() []router.Signal
	// FollowsCaches reports whether it looks at what workers have cached.
	FollowsCaches() bool
	// Describe describes it in a line, "" for a Name; signals are how old what it looks at is.
	Describe(signals router.Signals) string
	// New returns a new policy.
	New(o Options) (router.Policy, error)
}

var _ = [...]Choice{Name(""), (*Picker)(nil), (*Text)(nil), (*Process)(nil)}

// FollowsCaches reports whether the policy looks at what workers have cached.
func (n Name) FollowsCaches() bool { return n.Info().Caches }

// Describe returns "": the name says it.
func (n Name) Describe(router.Signals) string { return "" }

// New returns a new policy of the name.
func (n Name) New(o Options) (router.Policy, error) { return New(n, o) }

// New returns a new policy.
func (p *Picker) New(o Options) (router.Policy, error) { return NewPicker(*p, o), nil }

// New returns a new policy.
func (t *Text) New(o Options) (router.Policy, error) { return NewText(*t, o) }

// FollowsCaches returns false: what a program looks at is known once it has run.
func (p *Process) FollowsCaches() bool { return false }

// New fails: a program is asked by NewProcess, once it has been started.
func (p *Process) New(Options) (router.Policy, error) {
	return nil, errors.New("a policy process, which nobody has started: want a replay that runs to its end")
}
