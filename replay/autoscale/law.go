package autoscale

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/sim"
)

// Law is a constant time, or a distribution of random times.
type Law struct {
	// uniform, lognormal or exponential; "": the constant Mean
	Name   string   `json:",omitempty" yaml:"law" is:"law name"`
	Mean   sim.Time `json:",omitempty" yaml:"mean"`
	Median sim.Time `json:",omitempty" yaml:"median"` // for lognormal, instead of the mean
	Sigma  float64  `json:",omitempty" yaml:"sigma"`  // for lognormal
	Min    sim.Time `json:",omitempty" yaml:"min"`    // bounds of drawn times
	Max    sim.Time `json:",omitempty" yaml:"max"`    // 0: none
}

// Laws returns the names of laws.
func Laws() []string { return []string{"uniform", "lognormal", "exponential"} }

// Draw returns a time. Random times are in whole ms.
func (l *Law) Draw(random *rand.Rand) sim.Time {
	var t float64
	switch l.Name {
	case "":
		return l.Mean
	case "uniform":
		t = float64(l.Min) + float64(random.Float64()*float64(l.Max-l.Min))
	case "lognormal":
		mu := math.Log(float64(l.Median))
		if l.Median == 0 {
			mu = math.Log(float64(l.Mean)) - float64(l.Sigma*l.Sigma)/2
		}
		t = math.Exp(mu + float64(l.Sigma*random.NormFloat64()))
	case "exponential":
		t = float64(random.ExpFloat64() * float64(l.Mean))
	}
	most := math.MaxInt32 // about 25 days
	if l.Max > 0 {
		most = int(l.Max)
	}
	return sim.Time(math.Round(min(max(t, float64(l.Min)), float64(most))))
}

// isZero reports whether the law is the constant 0.
func (l *Law) isZero() bool { return *l == Law{} }

// Check returns an error for an invalid law.
func (l *Law) Check() error {
	for _, t := range []sim.Time{l.Mean, l.Median, l.Min, l.Max} {
		if !isTime(t, 0) || t > math.MaxInt32 {
			return fmt.Errorf("%v ms, must be 0 to %d ms", float64(t), math.MaxInt32)
		}
	}
	bounded := l.Max > 0 && l.Max >= l.Min || l.Max == 0 && l.Name != "uniform"
	switch {
	case l.Name != "" && !slices.Contains(Laws(), l.Name):
		return excerpt.Errorf("law %q, must be one of %v", l.Name, Laws())
	case !bounded:
		return fmt.Errorf("from %v to %v ms, expected min and max in order", float64(l.Min), float64(l.Max))
	case l.Name == "uniform" && (l.Mean != 0 || l.Median != 0 || l.Sigma != 0):
		return fmt.Errorf("a uniform law has min and max, and nothing else")
	case l.Name == "exponential" && (l.Mean == 0 || l.Median != 0 || l.Sigma != 0):
		return fmt.Errorf("an exponential law has a mean above 0, and may have min and max")
	case l.Name == "lognormal" && ((l.Mean > 0) == (l.Median > 0) || !isNumber(l.Sigma) || l.Sigma == 0 || l.Sigma > 10):
		return fmt.Errorf("a lognormal law has a mean or a median above 0 and a sigma above 0 and up to 10, and may have min and max")
	}
	return nil
}

// Ladder is the startup phases of a worker. If Ladder is empty, the startup time of the engine applies.
type Ladder struct {
	Node    Law `yaml:"node" is:"law"`
	Image   Law `yaml:"image" is:"law"`
	Weights Law `yaml:"weights" is:"law"`
	WarmUp  Law `yaml:"warmup" is:"law"`
}

// IsEmpty reports whether all phases take no time.
func (l *Ladder) IsEmpty() bool {
	return l.Node.isZero() && l.Image.isZero() && l.Weights.isZero() && l.WarmUp.isZero()
}

// Draw returns the time until the server of a worker runs, and the time until the worker gets requests.
func (l *Ladder) Draw(random *rand.Rand) (runs, ready sim.Time) {
	runs = l.Node.Draw(random) + l.Image.Draw(random)
	return runs, runs + l.Weights.Draw(random) + l.WarmUp.Draw(random)
}

func (l *Ladder) check() error {
	for _, r := range []struct {
		name string
		law  *Law
	}{{"node", &l.Node}, {"image", &l.Image}, {"weights", &l.Weights}, {"warmup", &l.WarmUp}} {
		if err := r.law.Check(); err != nil {
			return fmt.Errorf("startup: %s: %w", r.name, err)
		}
	}
	return nil
}

// Most returns the maximum startup time. For a distribution without a maximum, Most uses the 99th percentile.
func (l *Ladder) Most() sim.Time {
	return l.Node.most() + l.Image.most() + l.Weights.most() + l.WarmUp.most()
}

func (l *Law) most() sim.Time {
	const z99 = 2.326347874040841
	var t sim.Time
	switch {
	case l.Name == "":
		return l.Mean
	case l.Max > 0:
		return l.Max
	case l.Name == "exponential":
		t = sim.Time(math.Round(float64(l.Mean) * math.Log(100)))
	case l.Median > 0:
		t = sim.Time(math.Round(float64(l.Median) * math.Exp(l.Sigma*z99)))
	default:
		t = sim.Time(math.Round(float64(l.Mean) * math.Exp(float64(l.Sigma*z99)-float64(l.Sigma*l.Sigma)/2)))
	}
	return max(t, l.Min)
}
