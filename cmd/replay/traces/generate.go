package traces

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/generate"
)

// NewGenerateCommand returns the command generate, which writes a generated trace.
func NewGenerateCommand(s cli.Streams) *cobra.Command {
	var f options.Generating
	var write writing
	var seed uint64
	return cli.BindGroups(&cobra.Command{
		Use:   "generate --out FILE",
		Short: "Generate a trace from distributions of arrivals and lengths",
		Long: `Generate a trace: arrivals from a distribution or from users with think times,
lengths from a distribution or a trace, shared prefixes, conversations, tasks of
agents, and mixes (docs/traces.md). The same flags generate the same bytes.`,
		Example: `  replay generate --arrivals poisson --rate 5 --duration 10m \
    --input lognormal:mean=1000,sigma=0.8 --output 200 --out a.jsonl
  replay generate --arrivals users:count=50 --requests 5000 --out users.jsonl \
    --think exponential:mean=5 --input 500 --output 200
  replay generate --rate 10 --requests 1000 --out mix.jsonl \
    --class 'chat:weight=0.8;input=800;output=250;turns=uniform:min=1,max=6' \
    --class 'rag:weight=0.2;input=6000;output=100;prefix=system:tokens=4096'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("%s: must be no argument; --out names the file to write", strings.Join(args, " "))
			}
			write.chosen = cmd.Flags().Changed("to")
			return generateTrace(cmd.Context(), s, &f, &write, seed)
		},
	}, cli.NewGroup("Workload", func(fs *pflag.FlagSet) { f.Bind(fs, "") }), cli.NewGroup("What is written", func(fs *pflag.FlagSet) {
		write.bindFlags(fs)
		fs.Uint64Var(&seed, "seed", 42, "seed of all random draws, a `number`")
	}))
}

func generateTrace(ctx context.Context, s cli.Streams, f *options.Generating, write *writing, seed uint64) error {
	block := write.block
	if block == 0 {
		block = defaultTraceBlock
	}
	if block < 0 {
		return cli.Usagef("--block-size=%d: must be at least 1", block)
	}
	config, err := f.Build(block, seed)
	if err != nil {
		return err
	}
	g, err := generate.New(config)
	if err != nil {
		return cli.WrongUsage(err)
	}
	if options.MakesTasks(&config) {
		if err := write.chooseGraph(); err != nil {
			return err
		}
	}
	to, err := write.openTarget(s, block, true)
	if err != nil {
		return err
	}
	return to.endFile(copyRecords(ctx, g, to))
}

// copyRecords writes all records of a reader until ctx ends.
func copyRecords(ctx context.Context, from formats.Reader, to *target) error {
	var r formats.Record
	for n := 0; ; n++ {
		if n&1023 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		switch err := from.Next(&r); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("request %d: %w", n+1, err)
		}
		if err := to.Write(&r); err != nil {
			return err
		}
	}
}
