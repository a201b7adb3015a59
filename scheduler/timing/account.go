package timing

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/optables"
	"github.com/replay-llm/replay/scheduler/silicon"
)

// Account is what pass times by measured operators are made of.
type Account struct {
	Fit        hardware.Fit
	Engine     optables.Engine
	Release    string // of the engine whose operators were measured; "": none was
	Generation string // of the GPU
	Donor      bool   // the operators were measured on another GPU
	Shapes     silicon.Shapes
}

// IsMeasured reports whether a path names pass times by measured operators.
func IsMeasured(path string) bool { return strings.HasPrefix(path, SiliconPrefix) }

// EngineOf returns the engine of pass times by measured operators; ok is false for other pass times.
func EngineOf(path string) (e optables.Engine, ok bool) {
	name, ok := strings.CutPrefix(path, SiliconPrefix)
	if !ok {
		return e, false
	}
	_, query, _ := strings.Cut(name, "?")
	values, err := url.ParseQuery(query)
	e, _ = SplitEngine(values.Get(hardware.EngineKey))
	return e, err == nil
}

// AccountOf returns what the pass times of a path by measured operators are made of.
func AccountOf(path string) (*Account, error) {
	f, err := fitOf(path)
	if err != nil {
		return nil, err
	}
	m, err := loadMeasured(&f)
	if err != nil {
		return nil, err
	}
	c, err := NewComposer(&f)
	if err != nil {
		return nil, err
	}
	engine, _ := SplitEngine(f.Engine)
	t := c.Tables()
	return &Account{
		Fit: f, Engine: engine, Release: t.Releases()[engine.String()], Generation: t.Sheet().Generation(), Donor: t.Donor(), Shapes: m.Passes.Shapes,
	}, nil
}

// fitOf returns the fit of a path by measured operators.
func fitOf(path string) (f hardware.Fit, err error) {
	name, ok := strings.CutPrefix(path, SiliconPrefix)
	if !ok {
		return f, fmt.Errorf("%s: no pass times by measured operators", path)
	}
	return hardware.ParseFit(name)
}
