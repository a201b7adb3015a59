package policy

import (
	"cmp"
	"errors"

	"github.com/replay-llm/replay/router"
)

// Choice is the policy of a pool: a Name, a *Configured, a *Gateway, a *Picker, a *Text, a *Process or a *Given.
type Choice interface {
	// Info returns the entry of the registry. Without an entry, the result has only the name.
	Info() Info
	// ListSignals returns the signals that the policy reads.
	ListSignals() []router.Signal
	// FollowsCaches reports whether the policy reads the cached blocks of workers.
	FollowsCaches() bool
	// Describe returns a description in one line, "" for a Name. signals are the ages of the signals that the policy
	// reads.
	Describe(signals router.Signals) string
	// New returns a new policy.
	New(o Options) (router.Policy, error)
	// Recorded returns the value that run directories record.
	Recorded() any
}

var _ = [...]Choice{Name(""), (*Configured)(nil), (*Picker)(nil), (*Text)(nil), (*Process)(nil), (*Given)(nil)}

// Configured is a policy of the registry with settings. The settings are for policies that read caches.
type Configured struct {
	Name
	Config router.Config
}

// Configure returns n with the given settings, or n itself if they are nil.
func (n Name) Configure(config *router.Config) Choice {
	if config == nil {
		return n
	}
	return &Configured{n, *config}
}

// Given is a policy made by the caller, or by a run for a Process.
type Given struct {
	Name Name // name in reports; "": given
	// Make returns the policy of a pool. Make is called once for each pool of a run, and again when a fault restarts
	// the router. If the policy is also a router.Admission, the policy decides on requests before they are routed.
	Make func(Options) (router.Policy, error)
}

// Is reports whether a choice has the type T.
func Is[T Choice](c Choice) bool {
	_, ok := c.(T)
	return ok
}

// IsListed reports whether a choice is a policy of the registry. nil is the default policy.
func IsListed(c Choice) bool { return c == nil || Is[Name](c) || Is[*Configured](c) || Is[*Gateway](c) }

// IsGated reports whether a choice has a gate that reads the metrics of workers.
func IsGated(c Choice) bool {
	p, ok := c.(*Picker)
	return ok && p.Gate != nil
}

// The types are the fields of choices without their methods.
type (
	pickerFields  Picker
	textFields    Text
	processFields Process
)

// record is the form of a choice in run directories.
type record struct {
	Router       string
	RouterConfig *router.Config
	Gateway      *GatewaySettings
	Picker       *pickerFields
	RouterPolicy *textFields
	Process      *processFields
}

// Recorded returns the name.
func (n Name) Recorded() any { return record{Router: n.String()} }

// Recorded returns the name and the settings.
func (c *Configured) Recorded() any { return record{Router: c.Name.String(), RouterConfig: &c.Config} }

// Recorded returns the name and the picker.
func (p *Picker) Recorded() any {
	return record{Router: PickerName.String(), Picker: (*pickerFields)(p)}
}

// Recorded returns the name and the text.
func (t *Text) Recorded() any {
	return record{Router: TextName.String(), RouterPolicy: (*textFields)(t)}
}

// Recorded returns the name and the program.
func (p *Process) Recorded() any {
	return record{Router: ProcessName.String(), Process: (*processFields)(p)}
}

// Recorded returns only the name, because a function cannot be recorded.
func (g *Given) Recorded() any { return record{Router: g.Info().Report} }

// Info returns an Info with only the name.
func (p *Picker) Info() Info { return PickerName.Info() }

// Info returns an Info with only the name.
func (t *Text) Info() Info { return TextName.Info() }

// Info returns an Info with only the name.
func (p *Process) Info() Info { return ProcessName.Info() }

// Info returns an Info with only the name.
func (g *Given) Info() Info { return cmp.Or(g.Name, "given").Info() }

// FollowsCaches reports whether the policy reads the cached blocks of workers.
func (n Name) FollowsCaches() bool { return n.Info().Caches }

// Describe returns "", because the name is sufficient.
func (n Name) Describe(router.Signals) string { return "" }

// New returns a new policy with the name n.
func (n Name) New(o Options) (router.Policy, error) { return New(n, o) }

// New returns a new policy.
func (p *Picker) New(o Options) (router.Policy, error) { return NewPicker(*p, o), nil }

// New returns a new policy.
func (t *Text) New(o Options) (router.Policy, error) { return NewText(*t, o) }

// FollowsCaches returns false, because the facts that a program reads are known only after its start.
func (p *Process) FollowsCaches() bool { return false }

// New returns an error, because NewProcess makes the policy after the start of the program.
func (p *Process) New(Options) (router.Policy, error) {
	return nil, errors.New("a policy process that is not started: use a replay that runs to its end")
}

// FollowsCaches returns false. A stage reads the needs of the policy after the policy is made.
func (g *Given) FollowsCaches() bool { return false }

// Describe returns "", because the name is sufficient.
func (g *Given) Describe(router.Signals) string { return "" }

// New returns the policy that Make returns.
func (g *Given) New(o Options) (router.Policy, error) { return g.Make(o) }
