package reference

import (
	"flag"
	"fmt"
	"io"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// Spec returns the replay that c.Args describe.
func (c *Case) Spec() (replay.Spec, error) {
	trace, err := c.TracePath()
	if err != nil {
		return replay.Spec{}, err
	}
	return Parse(c.Args, trace, true)
}

// Parse returns the replay that command-line arguments of the reference describe. An empty trace means a synthetic
// workload. If compat is true, the replay follows the rules of the reference, and otherwise the rules of the real
// engines. Errors name the arguments.
func Parse(args []string, trace string, compat bool) (replay.Spec, error) {
	s := replay.Spec{Speedup: 1, Topology: replay.Topology{Compat: compat, Seed: 42}}
	file := replay.Trace{Path: trace}
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	bindWorkload(fs, &s, &file)
	var counts engines.ByRole[int]
	var own engines.ByRole[*engineargs.Args]
	bindCluster(fs, &s, &counts, &own)
	if err := fs.Parse(args); err != nil {
		return s, excerpt.Errorf("arguments %q: %w", args, err)
	}
	if fs.NArg() > 0 {
		return s, excerpt.Errorf("argument %q, expected flags only", fs.Arg(0))
	}
	if trace != "" {
		s.Trace = &file
	}
	var err error
	s.Pools, err = engines.JoinPools(counts, own)
	return s, err
}

func bindWorkload(fs *flag.FlagSet, s *replay.Spec, file *replay.Trace) {
	fs.IntVar(&file.BlockTokens, "trace-block-size", 512, "")
	fs.Float64Var(&file.SharedRatio, "trace-shared-prefix-ratio", 0, "")
	fs.IntVar(&file.Groups, "trace-num-prefix-groups", 0, "")
	fs.StringVar(&file.Format, "trace-format", "", "")
	fs.Float64Var(&s.Speedup, "arrival-speedup-ratio", 1, "")
	fs.Func("replay-concurrency", "", func(text string) error {
		s.Mode = loadgen.Concurrency
		_, err := fmt.Sscan(text, &s.MaxInFlight)
		return err
	})
	made := &s.Synthetic
	fs.IntVar(&made.Input, "input-tokens", 0, "")
	fs.IntVar(&made.Output, "output-tokens", 0, "")
	fs.IntVar(&made.Requests, "request-count", 0, "")
	fs.Float64Var((*float64)(&made.Interval), "arrival-interval-ms", 1, "")
	fs.IntVar(&made.Turns, "turns-per-session", 1, "")
	fs.Float64Var((*float64)(&made.Delay), "inter-turn-delay-ms", 0, "")
	fs.Float64Var(&made.SharedRatio, "shared-prefix-ratio", 0, "")
	fs.IntVar(&made.Groups, "num-prefix-groups", 0, "")
}

func bindCluster(fs *flag.FlagSet, s *replay.Spec, counts *engines.ByRole[int], args *engines.ByRole[*engineargs.Args]) {
	flags := engines.ByRole[[2]string]{{"num-workers", "extra-engine-args"}, {"num-prefill-workers", "prefill-engine-args"}, {"num-decode-workers", "decode-engine-args"}}
	for role, names := range flags {
		fs.IntVar(&counts[role], names[0], 1, "")
		fs.Func(names[1], "", func(text string) error {
			a, err := engineargs.Parse([]byte(text), engineargs.Options{Compat: s.Compat})
			args[role] = &a
			return err
		})
	}
	var name policy.Name
	var config *router.Config
	fs.Func("router-mode", "", func(text string) (err error) {
		name, err = policy.Parse(text)
		s.Router = name.Configure(config)
		return err
	})
	fs.Func("router-config", "", func(text string) error {
		c, err := router.ParseConfig([]byte(text))
		config = &c
		s.Router = name.Configure(config)
		return err
	})
}
