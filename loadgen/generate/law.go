package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/sim"
)

// Law is a distribution of random numbers.
type Law struct {
	// Draw returns a random number.
	Draw func(random *rand.Rand) float64
	// fixed is the value of a constant distribution. fixed is NaN for other distributions.
	fixed float64
}

func fixedLaw(x float64) Law { return Law{func(*rand.Rand) float64 { return x }, x} }

func varyingLaw(draw func(random *rand.Rand) float64) Law { return Law{draw, math.NaN()} }

// parseLaw parses a distribution:
//
//	1000                            constant, also fixed:value=1000
//	uniform:min=10,max=100
//	normal:mean=1000,sd=200
//	lognormal:mean=1000,sigma=0.8   or median= for mean=
//	exponential:mean=5
//	gamma:mean=1000,cv=2            cv: standard deviation / mean
//	empirical:file=a.jsonl          input lengths of a trace; with of=output its output lengths
//
// All distributions except uniform have the optional limits min= and max=.
func parseLaw(text string) (Law, error) {
	if x, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && x >= 0 {
		if x > sim.MaxTime {
			return Law{}, fmt.Errorf("%s must be at most %.0f", strings.TrimSpace(text), sim.MaxTime)
		}
		return fixedLaw(x), nil
	}
	p := parseParams(text)
	none := math.NaN()
	var law Law
	switch p.name {
	case "fixed":
		law = fixedLaw(p.number("value", none, span{0, mostDrawn}))
	case "uniform":
		return uniformLaw(p)
	case "normal":
		mean, sd := p.number("mean", none, span{-mostDrawn, mostDrawn}), p.number("sd", none, span{0, mostDrawn})
		law = varyingLaw(func(random *rand.Rand) float64 { return distuv.Normal{Mu: mean, Sigma: sd, Src: random}.Rand() })
	case "lognormal":
		sigma := p.number("sigma", none, span{0, mostSigma})
		mu := 0.0
		if p.has("median") {
			mu = math.Log(p.number("median", none, span{leastMean, mostDrawn}))
		} else {
			mu = math.Log(p.number("mean", none, span{leastMean, mostDrawn})) - float64(float64(sigma*sigma)/2)
		}
		law = varyingLaw(func(random *rand.Rand) float64 { return distuv.LogNormal{Mu: mu, Sigma: sigma, Src: random}.Rand() })
	case "exponential":
		law = exponentialLaw(p.number("mean", none, span{0, mostDrawn}))
	case "gamma":
		law = gammaLaw(p.number("mean", none, span{leastMean, mostDrawn}), p.number("cv", 1, span{0, mostSpread}))
	case "empirical":
		file, of := p.value("file", ""), p.value("of", "input")
		if file == "" || of != "input" && of != "output" {
			p.complain("file is %q and of is %q, must be a trace, and input or output", file, of)
		}
		if p.err != nil {
			return law, p.err
		}
		pairs, err := readPairs(file)
		if err != nil {
			return law, err
		}
		law = varyingLaw(func(random *rand.Rand) float64 {
			input, output := pairs.draw(random)
			if of == "output" {
				return float64(output)
			}
			return float64(input)
		})
	default:
		return law, excerpt.Errorf("%q: must be a number, or fixed, uniform, normal, lognormal, exponential, gamma or empirical", text)
	}
	return clampLength(p, law)
}

// ReadDraw parses a distribution like parseLaw, except for empirical.
func ReadDraw(text string) (draw func(random *rand.Rand) float64, err error) {
	if parseParams(text).name == "empirical" {
		return nil, excerpt.Errorf("%q: draws from a file, must be a law with numbers", text)
	}
	law, err := parseLaw(text)
	return law.Draw, err
}

// clampLength limits random numbers by the settings min and max.
func clampLength(p *params, law Law) (Law, error) {
	if p.has("min") || p.has("max") {
		least, most := p.bounds(0, math.MaxInt32)
		draw := law.Draw
		law = varyingLaw(func(random *rand.Rand) float64 { return min(max(draw(random), least), most) })
	}
	return law, p.end()
}

// bounds returns the settings min and max. noMin and noMax are their defaults.
func (p *params) bounds(noMin, noMax float64) (least, most float64) {
	least, most = p.number("min", noMin, span{0, mostDrawn}), p.number("max", noMax, span{0, mostDrawn})
	if most < least {
		p.complain("max is %v, must be at least the %v of min", most, least)
	}
	return least, most
}

// uniformLaw returns a uniform distribution. If min and max are integers, the distribution draws integers.
func uniformLaw(p *params) (Law, error) {
	least, most := p.bounds(math.NaN(), math.NaN())
	whole := least == math.Trunc(least) && most == math.Trunc(most) && most-least < 1<<53
	return varyingLaw(func(random *rand.Rand) float64 {
		if whole {
			return least + float64(random.Uint64N(uint64(most-least)+1))
		}
		return distuv.Uniform{Min: least, Max: most, Src: random}.Rand()
	}), p.end()
}

func exponentialLaw(mean float64) Law {
	return varyingLaw(func(random *rand.Rand) float64 { return float64(mean * random.ExpFloat64()) })
}

// gammaLaw returns a gamma distribution by its mean and coefficient of variation. If cv is 0, the distribution is
// constant.
func gammaLaw(mean, cv float64) Law {
	if cv == 0 {
		return fixedLaw(mean)
	}
	alpha := 1 / (cv * cv)
	return varyingLaw(func(random *rand.Rand) float64 {
		return distuv.Gamma{Alpha: alpha, Beta: alpha / mean, Src: random}.Rand()
	})
}

// pairs has the prompt and output lengths of the requests in a trace.
type pairs struct{ input, output []int32 }

func (p *pairs) draw(random *rand.Rand) (input, output int) {
	i := random.IntN(len(p.input))
	return int(p.input[i]), int(p.output[i])
}

func readPairs(path string) (*pairs, error) {
	if path == "-" {
		return nil, fmt.Errorf("lengths from standard input, must be a file")
	}
	s, err := registry.OpenPath(path, nil, formats.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	p := &pairs{}
	err = formats.Each(s, func(r *formats.Record) error {
		p.input, p.output = append(p.input, int32(r.Input)), append(p.output, int32(r.Output))
		return nil
	})
	if err == nil && len(p.input) == 0 {
		err = &loadgen.SyntaxError{Name: s.Name, Msg: "no requests in the file, must have at least one"}
	}
	return p, err
}
