package offline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// example is a replay with the numbers that the reference printed for it.
type example struct {
	name  string
	trace string // Mooncake format unless agentic is set
	block int    // tokens per hash id; 0: 64

	agentic   bool
	synthetic *loadgen.Synthetic

	engine          string // arguments; "": blocks of 64
	prefill, decode string // engines of a disaggregated replay, one worker each
	workers         int    // 0: 1
	concurrency     int    // 0: trace mode
	speedup         float64
	router          string // configuration of the KV router; "": round robin

	want   string // lines "line: worker arrival|admit|reused|first token, second token, last token", in order of arrival
	report string // lines "key value"
	placed string // placements by a KV router, see TestRoutedExamples
}

// config returns the configuration of an example.
func (e *example) config(t *testing.T) Config {
	t.Helper()
	block := e.block
	if block == 0 {
		block = 64
	}
	c := Config{Config: harness.Config{Topology: engines.Topology{Compat: true}, Admission: loadgen.Admission{Mode: loadgen.Trace, Speedup: 1}}}
	if e.speedup > 0 {
		c.Admission.Speedup = e.speedup
	}
	if e.concurrency > 0 {
		c.Admission = loadgen.Admission{Mode: loadgen.Concurrency, MaxInFlight: e.concurrency}
	}
	var err error
	switch {
	case e.synthetic != nil:
		recipe := *e.synthetic
		recipe.Block, recipe.Compat = 64, true
		c.Workload, err = loadgen.NewSynthetic(recipe)
	case e.agentic:
		c.Workload, err = registry.Read(strings.NewReader(e.trace), "agentic.jsonl",
			formats.Options{Format: formats.Agentic, TraceBlock: block, Compat: true})
	default:
		c.Workload = mooncake(t, e.trace, block)
	}
	if err != nil {
		t.Fatal(err)
	}
	if e.prefill != "" {
		c.Pools = engines.TwoPools(engines.Pool{Engine: engine(t, e.prefill), Count: 1}, engines.Pool{Engine: engine(t, e.decode), Count: 1})
	} else {
		text := e.engine
		if text == "" {
			text = `{"block_size":64}`
		}
		c.Pools = engines.OnePool(engine(t, text), max(e.workers, 1))
	}
	if e.router != "" {
		config, err := router.ParseConfig([]byte(e.router))
		if err != nil {
			t.Fatal(err)
		}
		c.Router = policy.KV.Configure(&config)
	}
	return c
}

func (e *example) run(t *testing.T) {
	t.Helper()
	c := e.config(t)
	result, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := timelines(&c, result.Collector), lines(e.want); e.want != "" && !slices.Equal(got, want) {
		t.Errorf("requests:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	checkReport(t, result.Report, e.report)
}

// timelines returns a line for each request, in order of arrival.
func timelines(cfg *Config, c *collector.Collector) []string {
	var out []string
	number := func(v float64) string { return string(collector.AppendFloat(nil, v)) }
	for _, r := range c.Requests() {
		w := cfg.Workload
		turn := w.Sessions[r.Session].First
		for range r.Turn {
			turn = w.Turns[turn].Next
		}
		name := fmt.Sprintf("s%dt%d", r.Session, r.Turn)
		if line := w.Turns[turn].Line; line > 0 && !w.Untimed {
			name = strconv.Itoa(int(line))
		}
		admit := number(float64(r.Admit))
		if r.Admit == r.Arrival {
			admit = "same"
		}
		tokens := number(float64(r.First))
		if r.Tokens > 1 {
			tokens += ", " + number(float64(r.Second))
		}
		if r.Tokens > 2 {
			tokens += ", " + number(float64(r.Last))
		}
		out = append(out, fmt.Sprintf("%s: w%d %s|%s|%d|%s", name, r.Worker, number(float64(r.Arrival)), admit, r.Reused, tokens))
	}
	return out
}

// checkReport compares a report with lines "key value".
func checkReport(t *testing.T, r *collector.Report, want string) {
	t.Helper()
	have := map[string]string{}
	for _, f := range r.Fields() {
		have[f.Key] = fmt.Sprint(f.Value())
		if v, ok := f.Value().(float64); ok {
			have[f.Key] = string(collector.AppendFloat(nil, v))
		}
	}
	for _, line := range lines(want) {
		key, value, _ := strings.Cut(line, " ")
		if have[key] != value {
			t.Errorf("%s is %s, want %s", key, have[key], value)
		}
	}
}

// lines returns the lines of text that are not blank, without surrounding white space.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}
