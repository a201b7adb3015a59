// Package budget compares a run with a baseline: budgets state the accepted change of each value, for continuous
// integration.
//
// Read budget.go (one budget, and the file format, which cmd/replay reads), judge.go (the check of a run), update.go,
// then text.go (the printed outcome).
package budget

import (
	"math"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Budget is the accepted change of a value from its baseline, or the accepted range of the value.
type Budget struct {
	Key  string // of the report
	Text string // as written
	Line int    // line number in the file

	kind     kind
	up, down float64 // how far it may rise and fall; infinite: as far as it likes
	percent  bool    // up and down are percentages of the baseline
	limit    float64 // of an absolute budget
}

type kind uint8

const (
	relative kind = iota // to the baseline
	atMost               // at most an absolute limit
	atLeast              // at least an absolute limit
)

// want lists the forms of a budget, for error messages.
const want = `exact, a change as +2%, -3%, +-1% or +0.5, or a limit as max 2000 or min 10`

// Parse reads a budget. Relative to the baseline: exact; +2% (a rise of at most 2 %), -3% (a fall of at most 3 %),
// +-1% (both), and the same without % in the unit of the value. Absolute: max 2000, min 10.
func Parse(key, text string) (Budget, error) {
	b := Budget{Key: key, Text: text}
	bad := excerpt.Errorf("%q, must be %s", text, want)
	words := strings.Fields(text)
	if len(words) == 2 {
		limit, err := strconv.ParseFloat(words[1], 64)
		b.limit, b.kind = limit, map[string]kind{"max": atMost, "min": atLeast}[words[0]]
		if err != nil || math.IsNaN(limit) || b.kind == relative {
			return b, bad
		}
		return b, nil
	}
	if len(words) != 1 {
		return b, bad
	}
	if words[0] == "exact" {
		return b, nil
	}
	return b, b.parseChange(words[0], bad)
}

func (b *Budget) parseChange(text string, bad error) error {
	sign := strings.TrimRight(text, "0123456789.eE%")
	number, percent := strings.CutSuffix(text[len(sign):], "%")
	by, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsInf(by, 0) {
		return bad
	}
	b.percent = percent
	switch sign {
	case "+":
		b.up, b.down = by, math.Inf(1)
	case "-":
		b.up, b.down = math.Inf(1), by
	case "+-", "±":
		b.up, b.down = by, by
	default:
		return bad
	}
	return nil
}

// needsBaseline reports whether the budget is relative to a baseline.
func (b *Budget) needsBaseline() bool { return b.kind == relative }

// allowedRange returns the smallest and the largest value that the budget accepts.
func (b *Budget) allowedRange(baseline float64) (least, most float64) {
	switch b.kind {
	case atMost:
		return math.Inf(-1), b.limit
	case atLeast:
		return b.limit, math.Inf(1)
	}
	unit := 1.0
	if b.percent {
		unit = math.Abs(baseline) / 100
	}
	return baseline - scaleUnit(b.down, unit), baseline + scaleUnit(b.up, unit)
}

// scaleUnit returns by·unit. An infinite factor gives infinity, even for unit 0.
func scaleUnit(by, unit float64) float64 {
	if math.IsInf(by, 1) {
		return by
	}
	return by * unit
}

// File is a file of budgets with the baseline of its values. Field tags have the keys of the file
// (internal/cmd/yamlfile).
type File struct {
	Path string
	// Command is the command line of the run, without the program name. Command is empty if the run is given to the
	// check.
	Command []string `yaml:"run" is:"command"`
	// Exact reports whether all requests must be routed and scheduled as in the baseline.
	Exact    bool      `yaml:"behaviour" is:"behaviour"`
	Budgets  []Budget  `yaml:"budgets" is:"budgets"`
	Baseline *Baseline `yaml:"baseline" is:"baseline"` // nil before the first update

	Text []byte // the content of the file
}

// Baseline holds the values that budgets compare with.
type Baseline struct {
	Lifecycles string             `yaml:"lifecycles"` // hash of what happened to each request; "" when not known
	Values     map[string]float64 `yaml:"values" is:"-1e300..1e300"`
	From       string             // path of the baseline file; "" if the file of budgets contains the baseline
}
