package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
)

// Law draws numbers.
type Law interface {
	// Draw draws one with the given source of chance.
	Draw(random *rand.Rand) float64
}

// ParseLaw reads a law:
//
//	1000                            always that, also fixed:value=1000
//	uniform:min=10,max=100          all of them alike
//	normal:mean=1000,sd=200
//	lognormal:mean=1000,sigma=0.8   or median= instead of mean=
//	exponential:mean=5
//	gamma:mean=1000,cv=2            cv: standard deviation by mean
//	empirical:file=a.jsonl          inputs of a trace; of=output: its outputs
//
// min= and max= bound what all but uniform draw.
func ParseLaw(text string) (Law, error) {
	if x, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && x >= 0 && !math.IsInf(x, 0) {
		return fixed(x), nil
	}
	p := parseParams(text)
	none := math.NaN()
	var law Law
	switch p.name {
	case "fixed":
		law = fixed(p.number("value", none, 0))
	case "uniform":
		u := uniform{p.number("min", none, 0), p.number("max", none, 0)}
		if u.max < u.min {
			p.complain("max is %v, want at least the %v of min", u.max, u.min)
		}
		return u, p.end()
	case "normal":
		law = normal{p.number("mean", none, -math.MaxFloat64), p.number("sd", none, 0)}
	case "lognormal":
		sigma := p.number("sigma", none, 0)
		mu := 0.0
		if p.has("median") {
			mu = math.Log(p.number("median", none, math.SmallestNonzeroFloat64))
		} else {
			mu = math.Log(p.number("mean", none, math.SmallestNonzeroFloat64)) - float64(float64(sigma*sigma)/2)
		}
		law = lognormal{mu, sigma}
	case "exponential":
		law = exponential(p.number("mean", none, 0))
	case "gamma":
		law = gammaOf(p.number("mean", none, math.SmallestNonzeroFloat64), p.number("cv", 1, 0))
	case "empirical":
		file, of := p.value("file", ""), p.value("of", "input")
		if file == "" || of != "input" && of != "output" {
			p.complain("file is %q and of is %q, want a trace, and input or output", file, of)
		}
		if p.err != nil {
			return nil, p.err
		}
		pairs, err := readPairs(file)
		if err != nil {
			return nil, err
		}
		law = empirical{pairs, of == "output"}
	default:
		return nil, fmt.Errorf("%q: want a number, or fixed, uniform, normal, lognormal, exponential, gamma or empirical", text)
	}
	return clampLength(p, law)
}

// clampLength applies min and max.
func clampLength(p *params, law Law) (Law, error) {
	if p.has("min") || p.has("max") {
		b := limits{law, p.number("min", 0, 0), p.number("max", math.MaxInt32, 0)}
		if b.max < b.min {
			p.complain("max is %v, want at least the %v of min", b.max, b.min)
		}
		law = b
	}
	return law, p.end()
}

type fixed float64

func (f fixed) Draw(*rand.Rand) float64 { return float64(f) }

// uniform draws whole numbers from min to max where both are whole, and any
// number between them where not.
type uniform struct{ min, max float64 }

func (u uniform) Draw(random *rand.Rand) float64 {
	if u.min == math.Trunc(u.min) && u.max == math.Trunc(u.max) && u.max-u.min < 1<<53 {
		return u.min + float64(random.Uint64N(uint64(u.max-u.min)+1))
	}
	return distuv.Uniform{Min: u.min, Max: u.max, Src: random}.Rand()
}

type normal struct{ mean, sd float64 }

func (n normal) Draw(random *rand.Rand) float64 {
	return distuv.Normal{Mu: n.mean, Sigma: n.sd, Src: random}.Rand()
}

type lognormal struct{ mu, sigma float64 }

func (l lognormal) Draw(random *rand.Rand) float64 {
	return distuv.LogNormal{Mu: l.mu, Sigma: l.sigma, Src: random}.Rand()
}

// exponential is the mean.
type exponential float64

func (e exponential) Draw(random *rand.Rand) float64 { return float64(e) * random.ExpFloat64() }

type gamma struct{ alpha, beta float64 }

// gammaOf is a gamma law by mean and coefficient of variation; 0 of it is the
// mean always.
func gammaOf(mean, cv float64) Law {
	if cv == 0 {
		return fixed(mean)
	}
	alpha := 1 / (cv * cv)
	return gamma{alpha, alpha / mean}
}

func (g gamma) Draw(random *rand.Rand) float64 {
	return distuv.Gamma{Alpha: g.alpha, Beta: g.beta, Src: random}.Rand()
}

// limits bounds what another law draws.
type limits struct {
	law      Law
	min, max float64
}

func (l limits) Draw(random *rand.Rand) float64 {
	return min(max(l.law.Draw(random), l.min), l.max)
}

// empirical draws lengths of a trace.
type empirical struct {
	from   *pairs
	output bool
}

func (e empirical) Draw(random *rand.Rand) float64 {
	input, output := e.from.draw(random)
	if e.output {
		return float64(output)
	}
	return float64(input)
}

// pairs are prompts and answers of a trace.
type pairs struct{ input, output []int32 }

func (p *pairs) draw(random *rand.Rand) (input, output int) {
	i := random.IntN(len(p.input))
	return int(p.input[i]), int(p.output[i])
}

func readPairs(path string) (*pairs, error) {
	if path == "-" {
		return nil, fmt.Errorf("lengths from standard input, want a file")
	}
	s, err := formats.OpenPath(path, nil, formats.Options{})
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
		err = &loadgen.SyntaxError{Name: s.Name, Msg: "no requests in the file, want at least one"}
	}
	return p, err
}
