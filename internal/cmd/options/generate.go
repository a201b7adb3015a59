package options

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/loadgen/generate"
	"github.com/replay-llm/replay/sim"
)

// Generating has the flags for a generated workload.
type Generating struct {
	config   generate.Config
	duration time.Duration
	class    generate.Class // flags of the only class, without --class
	classes  []string
	prefix   string // prefix of the names of flags
}

// Bind adds the flags to fs. prefix is the prefix of their names.
func (f *Generating) Bind(fs *pflag.FlagSet, prefix string) {
	f.prefix = prefix
	c, k := &f.config, &f.class
	fs.StringVar(&c.Arrivals, prefix+"arrivals", "poisson", "`law` of arrivals: poisson, gamma:cv=2, constant, ramp:to=20, diurnal:period=24h, users:count=50")
	fs.Float64Var(&c.Rate, prefix+"rate", 0, "arrivals per second, a `number`; ramps start with it")
	fs.DurationVar(&f.duration, prefix+"duration", 0, "`time` in which requests arrive, such as 10m")
	fs.IntVar(&c.Requests, prefix+"requests", 0, "`number` of requests")
	fs.StringVar(&k.Input, prefix+"input", "", "`law` of prompt tokens: 1000, uniform:min=10,max=90, normal:mean=1000,sd=200, lognormal:mean=1000,sigma=0.8, exponential:mean=500, gamma:mean=500,cv=2, empirical:file=a.jsonl")
	fs.StringVar(&k.Output, prefix+"output", "", "`law` of answer tokens")
	fs.StringVar(&k.LengthsFrom, prefix+"lengths-from", "", "draw pairs of prompt and answer lengths from this trace `FILE`")
	fs.StringVar(&k.Prefix, prefix+"prefix", "", "`prefixes` that prompts share: system:tokens=1000, groups:count=10,tokens=2000, tree:depth=3,branch=4,tokens=500")
	fs.StringVar(&k.Turns, prefix+"turns", "", "`law` of the number of requests per conversation")
	fs.StringVar(&k.TurnInput, prefix+"turn-input", "", "`law` of the tokens that each later turn adds (default: the distribution of the first prompt)")
	fs.StringVar(&k.Think, prefix+"think", "", "`law` of the seconds from an answer to the next turn")
	f.bindTasks(fs)
	fs.StringArrayVar(&f.classes, prefix+"class", nil, "one class in a mix of `kinds`, repeatable: NAME:weight=0.7;input=LAW;output=LAW;turns=LAW;...")
}

// bindTasks adds the flags for tasks of agents. The help shows only the first of these flags.
func (f *Generating) bindTasks(fs *pflag.FlagSet) {
	t, prefix := &f.class.Tasks, f.prefix
	fs.StringVar(&t.Agents, prefix+"agents", "", "`law` of the number of sub-agents that a task starts (docs/traces.md)")
	fs.StringVar(&t.Calls, prefix+"calls", "", "`law` of the number of tool calls per sub-agent (default: 1)")
	fs.StringVar(&t.Tool, prefix+"tool", "", "`law` of the seconds that a tool call takes")
	fs.StringVar(&t.ToolInput, prefix+"tool-input", "", "`law` of the tokens that a tool result adds (default: the distribution of the sub-agent's first prompt)")
	fs.StringVar(&t.Input, prefix+"agent-input", "", "`law` of the first prompts of sub-agents (default: --input)")
	fs.StringVar(&t.Output, prefix+"agent-output", "", "`law` of the answers of sub-agents (default: --output)")
	fs.StringVar(&t.Prefix, prefix+"agent-prefix", "", "`prefixes` that the first prompts of sub-agents share, as in --prefix")
	fs.Float64Var(&t.Fails, prefix+"fails", 0, "`share` of tool calls that fail and are repeated, 0 to 0.99")
	cli.Hide(fs, prefix+"calls", prefix+"tool", prefix+"tool-input", prefix+"agent-input", prefix+"agent-output", prefix+"agent-prefix", prefix+"fails")
}

// MakesTasks reports whether the workload contains tasks of agents.
func MakesTasks(c *generate.Config) bool {
	return slices.ContainsFunc(c.Classes, func(k generate.Class) bool { return k.Tasks.Agents != "" })
}

// Build returns the configuration of the generated workload. block is the number of tokens per block id.
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
		return c, cli.Usagef("--%sclass: lengths, prefix, turns, think and tasks are set in the class, remove these flags", f.prefix)
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

// parseClass parses NAME:key=value;key=value.
func parseClass(text string) (generate.Class, error) {
	name, rest, _ := strings.Cut(text, ":")
	k := generate.Class{Name: name, Weight: 1}
	texts := map[string]*string{
		"input": &k.Input, "output": &k.Output, "lengths-from": &k.LengthsFrom, "prefix": &k.Prefix,
		"turns": &k.Turns, "turn-input": &k.TurnInput, "think": &k.Think,
		"agents": &k.Tasks.Agents, "agent-input": &k.Tasks.Input, "agent-output": &k.Tasks.Output, "agent-prefix": &k.Tasks.Prefix,
		"calls": &k.Tasks.Calls, "tool": &k.Tasks.Tool, "tool-input": &k.Tasks.ToolInput,
	}
	numbers := map[string]*float64{"weight": &k.Weight, "fails": &k.Tasks.Fails}
	for part := range strings.SplitSeq(rest, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if to := texts[key]; to != nil {
			*to = value
			continue
		}
		to := numbers[key]
		if to == nil {
			names := slices.Sorted(maps.Keys(texts))
			return k, cli.Usagef("--class=%s: %q is no setting, must be %s, fails or weight%s", text, key, strings.Join(names, ", "), nearest.Ask(key, append(names, "fails", "weight")))
		}
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return k, cli.Usagef("--class=%s: %s is %s, must be a number", text, key, value)
		}
		*to = x
	}
	return k, nil
}
