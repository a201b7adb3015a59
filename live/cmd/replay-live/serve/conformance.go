package serve

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/conformance"

	served "github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/replay/engineargs"
)

// conformanceFlags are the flags of conformance.
type conformanceFlags struct {
	engine, mode string
	speedup      float64
}

// NewConformanceCommand returns the command that runs the conformance tests against the mocker.
func NewConformanceCommand(s cli.Streams) *cobra.Command {
	f := &conformanceFlags{}
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Check that the mocker meets the contract of a served engine",
		Long: `Run the conformance tests of package engine/conformance with the mocker (an
engine without a model), for all schedulers and disaggregation modes. Each test
prints a line; the first failure ends the run. Other engines run the same tests
in their own suites.`,
		Example: `  replay conformance
  replay conformance --engine sglang --disaggregation-mode decode`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("%s: must be no arguments", args[0])
			}
			subjects, err := f.listSubjects()
			if err != nil {
				return err
			}
			for _, one := range subjects {
				if err := checkContract(cmd.Context(), s, one); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cli.BindOwn(cmd, func(fs *pflag.FlagSet) {
		fs.StringVar(&f.engine, "engine", "", "check only the mocker of this `scheduler`: vllm, sglang or trtllm (default: all)")
		fs.StringVar(&f.mode, "disaggregation-mode", "", "check only this disaggregation `mode`: agg, prefill or decode (default: all)")
		fs.Float64Var(&f.speedup, "speedup", 20, "`factor` by which simulated time runs faster than real time")
	})
	return cmd
}

// listSubjects returns the options of the mockers that the flags select.
func (f *conformanceFlags) listSubjects() ([]mocker.Options, error) {
	if !(f.speedup > 0) || f.speedup > 1e6 {
		return nil, cli.Usagef("--speedup: %v, must be more than 0 and at most 1e6", f.speedup)
	}
	kinds := []string{engineargs.VLLM.String(), engineargs.SGLang.String(), engineargs.TRTLLM.String()}
	if f.engine != "" {
		if !slices.Contains(kinds, f.engine) {
			return nil, cli.Usagef("--engine: %q, must be vllm, sglang or trtllm", f.engine)
		}
		kinds = []string{f.engine}
	}
	modes := []served.Mode{served.Aggregated, served.Prefill, served.Decode}
	if f.mode != "" {
		mode, err := served.ParseMode(f.mode)
		if err != nil {
			return nil, cli.Usagef("--disaggregation-mode: %q, must be agg, prefill or decode", f.mode)
		}
		modes = []served.Mode{mode}
	}
	var all []mocker.Options
	for _, k := range kinds {
		args, err := engineargs.Parse([]byte(`{"engine_type":"`+k+`"}`), engineargs.Options{})
		if err != nil {
			return nil, err
		}
		args.Speedup = f.speedup
		for _, m := range modes {
			o := mocker.Options{Engine: args, Mode: m, KVEvents: true}
			all = append(all, o)
		}
	}
	return all, nil
}

// checkContract runs the conformance tests.
func checkContract(ctx context.Context, s cli.Streams, options mocker.Options) error {
	kind, mode := options.Engine.Engine, options.Mode
	if _, err := mocker.New(options); err != nil {
		return err
	}
	fresh := func() served.Engine {
		e, err := mocker.New(options)
		if err != nil {
			panic("a mocker that was made before cannot be made again: " + err.Error())
		}
		return e
	}
	err := conformance.Each(ctx, fresh, func(name string, err error) {
		fmt.Fprintf(s.Out, "%-6v  %-7s  %-17s  %s\n", kind, mode, name, formatVerdict(err))
	}, conformance.WithRequest(func(rq *served.Request) {
		if mode == served.Decode {
			rq.PrefillResult = &served.PrefillResult{DisaggregatedParams: json.RawMessage(`{}`)}
		}
	}))
	if err != nil {
		return fmt.Errorf("mocker over %v, mode %s: %w", kind, mode, err)
	}
	return nil
}

// formatVerdict formats the result of a check.
func formatVerdict(err error) string {
	switch err.(type) {
	case nil:
		return "ok"
	case *conformance.Skipped:
		return err.Error()
	}
	return "FAILED"
}
