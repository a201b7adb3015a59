package budget

import "math"

// Document is the JSON form of the outcome of a check.
type Document struct {
	File      string         `json:"file"`
	Run       string         `json:"run"`
	Holds     bool           `json:"holds"` // all budgets, and the behaviour where it must stay
	Exceeded  int            `json:"exceeded"`
	Budgets   []LineDocument `json:"budgets"`
	Behaviour string         `json:"behaviour"` // unchanged, changed or not known
	MustStay  bool           `json:"behaviour_must_stay"`
	// Assumptions are the assumptions of the result, by key.
	Assumptions map[string]string `json:"assumptions,omitempty"`
}

// LineDocument is the JSON form of the result for one budget.
type LineDocument struct {
	Metric   string   `json:"metric"`
	Budget   string   `json:"budget"`
	Line     int      `json:"line"`
	Baseline *float64 `json:"baseline"` // null: none
	Value    float64  `json:"value"`
	Least    *float64 `json:"least"` // null: no limit
	Most     *float64 `json:"most"`
	Exceeded bool     `json:"exceeded"`
}

// Document returns the JSON form of the outcome.
func (o *Outcome) Document() Document {
	d := Document{
		File: o.File.Path, Run: o.Run.Name, Holds: o.Exceeded() == 0 && o.Behaves(), Exceeded: o.Exceeded(),
		Budgets: []LineDocument{}, Behaviour: o.Changed.String(), MustStay: o.File.Exact,
	}
	for i := range o.Lines {
		l := &o.Lines[i]
		line := LineDocument{Metric: l.Key, Budget: l.Text, Line: l.Line, Value: l.Value, Least: limitOf(l.Least), Most: limitOf(l.Most), Exceeded: l.Exceeded}
		if l.HasBaseline {
			line.Baseline = &l.Baseline
		}
		d.Budgets = append(d.Budgets, line)
	}
	return d
}

// limitOf returns a limit, nil for an infinite limit.
func limitOf(limit float64) *float64 {
	if math.IsInf(limit, 0) {
		return nil
	}
	return &limit
}
