package timing

import (
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/optables"
	"github.com/replay-llm/replay/scheduler/silicon"
)

// Account describes the sources of pass times from measured operators.
type Account struct {
	Fit        hardware.Fit
	Engine     optables.Engine
	Release    string // release of the engine with measured operators; "": none was measured
	Generation string // GPU generation
	Donor      bool   // the operators were measured on another GPU
	Shapes     silicon.Shapes
}

// Account returns the sources of pass times from measured operators.
func (s Source) Account() (*Account, error) {
	f, err := s.operators()
	if err != nil {
		return nil, err
	}
	m, err := loadMeasured(f)
	if err != nil {
		return nil, err
	}
	c, err := NewComposer(f)
	if err != nil {
		return nil, err
	}
	engine, _ := SplitEngine(f.Engine)
	t := c.Tables()
	return &Account{
		Fit: *f, Engine: engine, Release: t.Releases()[engine.String()], Generation: t.Sheet().Generation(), Donor: t.Donor(), Shapes: m.Passes.Shapes,
	}, nil
}
