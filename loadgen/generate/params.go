package generate

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/sim"
)

// params has the parsed settings of a distribution, name:key=value,key=value.
type params struct {
	text string
	name string
	keys []string
	vals []string
	used []string
	err  error
}

func parseParams(text string) *params {
	p := &params{text: text}
	name, rest, _ := strings.Cut(text, ":")
	p.name = strings.TrimSpace(name)
	if rest == "" {
		return p
	}
	for part := range strings.SplitSeq(rest, ",") {
		k, v, ok := strings.Cut(part, "=")
		if !ok {
			p.complain("%q is no key=value", part)
		}
		p.keys, p.vals = append(p.keys, strings.TrimSpace(k)), append(p.vals, strings.TrimSpace(v))
	}
	return p
}

func (p *params) complain(format string, args ...any) {
	if p.err == nil {
		p.err = excerpt.Errorf("%q: %s", p.text, excerpt.Sprintf(format, args...))
	}
}

func (p *params) has(key string) bool { return slices.Contains(p.keys, key) }

// value returns a setting as text. none is the default.
func (p *params) value(key, none string) string {
	p.used = append(p.used, key)
	if i := slices.Index(p.keys, key); i >= 0 {
		return p.vals[i]
	}
	return none
}

// Limits for settings ensure that all random numbers and times are finite.
const (
	mostDrawn  = math.MaxInt32 // tokens or seconds
	leastMean  = 1e-9
	mostSpread = 1000 // standard deviation / mean
	mostSigma  = 10   // standard deviation of the logarithm
	leastRate  = 1e-9
	mostRate   = 1e9 // requests/s
	mostZipf   = 100
	mostSpanMS = sim.MaxTime
)

// span is the permitted range of a setting.
type span struct{ least, most float64 }

// number returns a setting that must be within a range. none is the default, or NaN for a required setting.
func (p *params) number(key string, none float64, within span) float64 {
	text := p.value(key, "")
	if text == "" {
		if math.IsNaN(none) {
			p.complain("%s is missing, must be a number", key)
		}
		return none
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= within.least && x <= within.most) {
		p.complain("%s is %s, must be %v to %v", key, text, within.least, within.most)
	}
	return x
}

// whole returns a required setting that must be an integer from 1 to most.
func (p *params) whole(key string, most int) int {
	text := p.value(key, "")
	if text == "" {
		p.complain("%s is missing, must be an integer", key)
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		p.complain("%s is %s, must be an integer from 1 to %d", key, text, most)
	}
	return n
}

// milliseconds returns a duration setting such as 90s or 1.5h in ms. A number without a unit is in seconds.
func (p *params) milliseconds(key string, none float64) float64 {
	text := p.value(key, "")
	if text == "" {
		return none
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		if !(x >= 0 && x*1000 <= mostSpanMS) {
			p.complain("%s is %s s, must be 0 to %.0f s", key, text, mostSpanMS/1000)
		}
		return x * 1000
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		p.complain("%s is %s, must be a time such as 90s", key, text)
	}
	return float64(d) / 1e6
}

// end returns an error if there are unknown settings.
func (p *params) end() error {
	for i, k := range p.keys {
		if !slices.Contains(p.used, k) {
			known := strings.Join(p.used, ", ")
			if known == "" {
				known = "none"
			}
			p.complain("%s is no setting of %s, must be %s", k, p.name, known)
		}
		if slices.Index(p.keys, k) < i {
			p.complain("%s is given twice, must be unique", k)
		}
	}
	return p.err
}
