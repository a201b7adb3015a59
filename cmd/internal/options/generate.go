package options

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/loadgen/generate"
	"github.com/replay-llm/replay/sim"
)

// Generating holds the flags that describe a generated workload, for every
// command that can run one.
type Generating struct {
	config   generate.Config
	duration time.Duration
	class    generate.Class // what the flags say, without --class
	classes  []string
	prefix   string // of the flags' names
}

// Bind adds the flags, with prefix before their names.
func (f *Generating) Bind(fs *pflag.FlagSet, prefix string) {
	f.prefix = prefix
	c, k := &f.config, &f.class
	fs.StringVar(&c.Arrivals, prefix+"arrivals", "poisson", "`law` of arrivals: poisson, gamma:cv=2, constant, ramp:to=20, diurnal:period=24h, users:count=50")
	fs.Float64Var(&c.Rate, prefix+"rate", 0, "arrivals per second, a `number`; ramps start with it")
	fs.DurationVar(&f.duration, prefix+"duration", 0, "`time` in which requests arrive, such as 10m")
	fs.IntVar(&c.Requests, prefix+"requests", 0, "`number` of requests")
	fs.StringVar(&k.Input, prefix+"input", "", "`law` of prompt tokens: 1000, uniform:min=10,max=90, normal:mean=1000,sd=200, lognormal:mean=1000,sigma=0.8, exponential:mean=500, gamma:mean=500,cv=2, empirical:file=a.jsonl")
	fs.StringVar(&k.Output, prefix+"output", "", "`law` of answer tokens")
	fs.StringVar(&k.LengthsFrom, prefix+"lengths-from", "", "draw prompt and answer together from the trace `FILE`")
	fs.StringVar(&k.Prefix, prefix+"prefix", "", "`what` prompts share: system:tokens=1000, groups:count=10,tokens=2000, tree:depth=3,branch=4,tokens=500")
	fs.StringVar(&k.Turns, prefix+"turns", "", "`law` of the requests of a conversation; a prompt holds all before it")
	fs.StringVar(&k.TurnInput, prefix+"turn-input", "", "`law` of the tokens that a later turn adds; as the first prompt without it")
	fs.StringVar(&k.Think, prefix+"think", "", "`law` of the seconds from an answer to the next turn")
	fs.StringArrayVar(&f.classes, prefix+"class", nil, "one of several `kinds` of requests: NAME:weight=0.7;input=LAW;output=LAW;turns=LAW;...")
}

// Build is the configuration that the flags describe, with ids of so many
// tokens.
func (f *Generating) Build(block int, seed uint64) (generate.Config, error) {
	c := f.config
	c.Duration, c.Block, c.Seed = sim.Time(float64(f.duration)/1e6), block, seed
	if len(f.classes) == 0 {
		k := f.class
		k.Weight = 1
		c.Classes = []generate.Class{k}
		return c, nil
	}
	if f.class != (generate.Class{}) {
		return c, cli.Usagef("--%sclass: lengths, prefix, turns and think belong into the class, want none of these flags with it", f.prefix)
	}
	for _, text := range f.classes {
		k, err := parseClass(text)
		if err != nil {
			return c, err
		}
		c.Classes = append(c.Classes, k)
	}
	return c, nil
}

// parseClass reads NAME:key=value;key=value.
func parseClass(text string) (generate.Class, error) {
	name, rest, _ := strings.Cut(text, ":")
	k := generate.Class{Name: name, Weight: 1}
	texts := map[string]*string{
		"input": &k.Input, "output": &k.Output, "lengths-from": &k.LengthsFrom, "prefix": &k.Prefix,
		"turns": &k.Turns, "turn-input": &k.TurnInput, "think": &k.Think,
	}
	for part := range strings.SplitSeq(rest, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if to := texts[key]; to != nil {
			*to = value
			continue
		}
		if key != "weight" {
			return k, cli.Usagef("--class=%s: %q is no setting, want weight, input, output, lengths-from, prefix, turns, turn-input or think", text, key)
		}
		w, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return k, cli.Usagef("--class=%s: weight is %s, want a number", text, value)
		}
		k.Weight = w
	}
	return k, nil
}
