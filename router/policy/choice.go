package policy

import (
	"cmp"
	"errors"

	"github.com/replay-llm/replay/router"
)

// Choice is how the requests of a pool are routed: a Name, a *Configured, a *Gateway, a *Picker, a *Text, a *Process or a *Given.
type Choice interface {
	// Info returns the row of the registry; of a policy that is not there it has the name alone.
	Info() Info
	// ListSignals returns the signals that the policy reads.
	ListSignals() []router.Signal
	// FollowsCaches reports whether it reads what workers have cached.
	FollowsCaches() bool
	// Describe describes it in a line, "" for a Name; signals are the ages of the signals that it reads.
	Describe(signals router.Signals) string
	// New returns a new policy.
	New(o Options) (router.Policy, error)
	// Recorded returns it as run directories have it.
	Recorded() any
}

var _ = [...]Choice{Name(""), (*Configured)(nil), (*Picker)(nil), (*Text)(nil), (*Process)(nil), (*Given)(nil)}

// Configured is a policy of the registry with settings. Policies that read caches read the settings.
type Configured struct {
	Name
	Config router.Config
}

// Configure returns n with these settings, n itself where they are nil.
func (n Name) Configure(config *router.Config) Choice {
	if config == nil {
		return n
	}
	return &Configured{n, *config}
}

// Given is a policy that the caller makes, or one that a run makes of a Process.
type Given struct {
	Name Name // its name in reports; "": given
	// Make returns the policy of a pool. It is called once for each pool of a run, and again when a fault restarts the router. A policy
	// that is a router.Admission too decides on requests before they are routed.
	Make func(Options) (router.Policy, error)
}

// Is reports whether a choice is of one kind.
func Is[T Choice](c Choice) bool {
	_, ok := c.(T)
	return ok
}

// IsListed reports whether a choice, or nil for the default, is a policy of the registry.
func IsListed(c Choice) bool { return c == nil || Is[Name](c) || Is[*Configured](c) || Is[*Gateway](c) }

// IsGated reports whether a gate reads what workers report.
func IsGated(c Choice) bool {
	p, ok := c.(*Picker)
	return ok && p.Gate != nil
}

// The fields of the choices, without their methods.
type (
	pickerFields  Picker
	textFields    Text
	processFields Process
)

// record is a choice as run directories have it.
type record struct {
	Router       string
	RouterConfig *router.Config
	Gateway      *GatewaySettings
	Picker       *pickerFields
	Text         *textFields
	Process      *processFields
}

// Recorded returns the name.
func (n Name) Recorded() any { return record{Router: n.String()} }

// Recorded returns the name and the settings.
func (c *Configured) Recorded() any { return record{Router: c.Name.String(), RouterConfig: &c.Config} }

// Recorded returns the picker with its name.
func (p *Picker) Recorded() any {
	return record{Router: PickerName.String(), Picker: (*pickerFields)(p)}
}

// Recorded returns the text with its name.
func (t *Text) Recorded() any { return record{Router: TextName.String(), Text: (*textFields)(t)} }

// Recorded returns the program with its name.
func (p *Process) Recorded() any {
	return record{Router: ProcessName.String(), Process: (*processFields)(p)}
}

// Recorded returns the name: a function is not recorded.
func (g *Given) Recorded() any { return record{Router: g.Info().Report} }

// Info returns its name in reports.
func (p *Picker) Info() Info { return PickerName.Info() }

// Info returns its name in reports.
func (t *Text) Info() Info { return TextName.Info() }

// Info returns its name in reports.
func (p *Process) Info() Info { return ProcessName.Info() }

// Info returns its name in reports.
func (g *Given) Info() Info { return cmp.Or(g.Name, "given").Info() }

// FollowsCaches reports whether the policy reads what workers have cached.
func (n Name) FollowsCaches() bool { return n.Info().Caches }

// Describe returns "": the name suffices.
func (n Name) Describe(router.Signals) string { return "" }

// New returns a new policy of the name.
func (n Name) New(o Options) (router.Policy, error) { return New(n, o) }

// New returns a new policy.
func (p *Picker) New(o Options) (router.Policy, error) { return NewPicker(*p, o), nil }

// New returns a new policy.
func (t *Text) New(o Options) (router.Policy, error) { return NewText(*t, o) }

// FollowsCaches returns false: what a program reads is known once it has run.
func (p *Process) FollowsCaches() bool { return false }

// New fails: a program is asked by NewProcess, once it has been started.
func (p *Process) New(Options) (router.Policy, error) {
	return nil, errors.New("a policy process that is not started: use a replay that runs to its end")
}

// FollowsCaches returns false: a stage reads the needs of the policy once it is made.
func (g *Given) FollowsCaches() bool { return false }

// Describe returns "": the name suffices.
func (g *Given) Describe(router.Signals) string { return "" }

// New returns the policy that the caller makes.
func (g *Given) New(o Options) (router.Policy, error) { return g.Make(o) }
