package timing

import (
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/silicon"
)

// PassPart is an operator of a pass, or another part of its time.
type PassPart struct {
	Name   string  `json:"name"`
	Calls  float64 `json:"calls"` // calls per pass
	Ms     float64 `json:"ms"`    // total of all calls
	Source string  `json:"source"`
}

// Composition lists the parts of passes that are timed by measured operators.
type Composition struct {
	composer *silicon.Composer
	fix      silicon.Corrections
}

// Compose returns the composition of passes for a fit.
func Compose(f *hardware.Fit) (*Composition, error) {
	c, err := NewComposer(f)
	if err != nil {
		return nil, err
	}
	m, err := loadMeasured(f)
	if err != nil {
		return nil, err
	}
	fix := m.Corrections
	if f.Eager() {
		fix.Base += float64(fix.Layer * float64(f.Model.Layers))
	}
	return &Composition{c, fix}, nil
}

// Compose returns the composition of passes for a source with measured operators.
func (s Source) Compose() (*Composition, error) {
	f, err := s.operators()
	if err != nil {
		return nil, err
	}
	return Compose(f)
}

// Decode returns the parts of a pass that computes one token for each of the requests, each with length tokens.
func (c *Composition) Decode(requests, length int) []PassPart {
	all := append(append(c.composer.Linear(requests, false), c.composer.Head(requests)...), c.composer.Decode(requests, length)...)
	return c.addHost(all, 0, requests)
}

// Prompts returns the parts of a pass that computes the given number of tokens of each prompt, after past tokens of
// each.
func (c *Composition) Prompts(prompts, tokens, past int) []PassPart {
	all := append(append(c.composer.Linear(prompts*tokens, true), c.composer.Head(prompts)...), c.composer.Prompts(prompts, tokens, past)...)
	return c.addHost(all, float64((c.fix.Prompts-1)*silicon.Sum(all))+c.fix.Prompt, prompts)
}

// addHost adds the time of the host and of launches without graphs to the operators of a pass.
func (c *Composition) addHost(operators []silicon.Part, launches float64, requests int) []PassPart {
	const fitted = "fitted to servers"
	var all []PassPart
	for i := range operators {
		x := &operators[i]
		all = append(all, PassPart{x.Name, x.Calls, x.Ms(), x.Source()})
	}
	if launches > 0 {
		all = append(all, PassPart{"launches", 1, launches, fitted})
	}
	return append(all, PassPart{"host", 1, c.fix.Base + float64(c.fix.Request*float64(requests)), fitted})
}
