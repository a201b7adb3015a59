package traces

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/inspect"
)

// newInspectCommand returns the command inspect, which summarizes a trace.
func newInspectCommand(s cli.Streams) *cobra.Command {
	var read reading
	form := cli.Choice{Names: []string{"table", "json"}, Value: "table"}
	return cli.BindGroups(&cobra.Command{
		Use:   "inspect FILE",
		Short: "Summarize a trace: lengths, rate over time, shared prefixes",
		Long: `Summarize a trace of any length in bounded memory: lengths, rate over time,
shared prefixes, and the reuse in an infinite cache. Numbers marked ~ are
estimates.`,
		Example: `  replay traces inspect requests.jsonl
  replay traces inspect azure_2023_conv.csv --output json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return inspectTrace(cmd.Context(), s, &read, form.Value, args)
		},
	}, read.group(), cli.NewGroup("Output", func(fs *pflag.FlagSet) {
		fs.Var(&form, "output", "`form` of the summary: table or json")
	}))
}

// NewDoctorCommand returns the command traces inspect as a command of the root, with the name doctor.
func NewDoctorCommand(s cli.Streams) *cobra.Command {
	cmd := newInspectCommand(s)
	cmd.Use = "doctor FILE"
	cmd.Short = "Summarize a trace, and suggest commands for it"
	cmd.Long = `Print a summary of a trace: format, rows, dropped rows, lengths, process of
arrivals, block size, hit rate of an infinite cache, and suggested commands.
It equals replay traces inspect. Numbers marked ~ are estimates.`
	cmd.Example = `  replay doctor requests.jsonl
  replay doctor azure_2023_conv.csv --output json`
	return cmd
}

func inspectTrace(ctx context.Context, s cli.Streams, read *reading, form string, args []string) error {
	source, err := read.openOne(ctx, s, args)
	if err != nil {
		return err
	}
	stream, err := source.Open()
	if err != nil {
		return err
	}
	defer stream.Close()
	sum, err := inspect.Read(stream)
	if err != nil {
		return err
	}
	if sum.Requests == 0 {
		return &loadgen.SyntaxError{Name: stream.Name, Msg: "no requests in the file, must have at least one"}
	}
	source.printSkipped()
	if form == "json" {
		return sum.WriteJSON(s.Out)
	}
	return sum.WriteText(s.Out)
}

// openOne is openSource for a command line with exactly one trace.
func (f *reading) openOne(ctx context.Context, s cli.Streams, args []string) (*reader, error) {
	if len(args) == 0 {
		return nil, cli.Usagef("no trace: must be a file, or - for standard input")
	}
	path, err := options.TraceFile(args)
	if err != nil {
		return nil, err
	}
	return f.openSource(ctx, s, path)
}

// newValidateCommand returns the command validate, which checks a trace.
func newValidateCommand(s cli.Streams) *cobra.Command {
	var read reading
	deployment := ""
	form := cli.Choice{Names: []string{"table", "json"}, Value: "table"}
	return cli.BindGroups(&cobra.Command{
		Use:   "validate FILE",
		Short: "Check every row of a trace",
		Long: `Check every row of a trace and list the errors, with line, value and rule. The
exit code is 1 if a row is bad and --skip-bad does not allow it. With
--deployment, a request that does not fit in the KV blocks or exceeds the
maximum sequence length of the model is also an error.`,
		Example: `  replay traces validate requests.jsonl
  replay traces validate requests.jsonl --skip-bad=3
  replay traces validate requests.jsonl --deployment h100.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			fits, err := options.FitCheck(deployment)
			if err != nil {
				return err
			}
			return validateTrace(cmd.Context(), s, &read, &wanted{form.Value, fits}, args)
		},
	}, read.group(), cli.NewGroup("Output", func(fs *pflag.FlagSet) {
		fs.StringVar(&deployment, "deployment", "", "YAML `file` of GPU, model and engine, written by replay init: report requests that it cannot serve")
		fs.Var(&form, "output", "`form` of the list: table or json")
	}))
}

// wanted holds the checks of a trace, and the form of the result.
type wanted struct {
	form string
	fits func(input, output int) error // nil, or why a request cannot be served
}

// validateTrace lists bad rows on standard output.
func validateTrace(ctx context.Context, s cli.Streams, read *reading, want *wanted, args []string) error {
	source, err := read.openOne(ctx, s, args)
	if err != nil {
		return err
	}
	allowed, bad, listed := source.options.SkipBad, 0, []string{}
	source.options.KeepGoing = true
	source.options.Bad = func(err error) {
		if bad++; bad <= mostBadRows {
			if listed = append(listed, err.Error()); want.form != "json" {
				fmt.Fprintln(s.Out, err)
			}
		}
	}
	stream, err := source.Open()
	if err != nil {
		return err
	}
	defer stream.Close()
	good, err := checkRows(stream, want.fits, source.options.Bad)
	if err != nil {
		return err
	}
	dropped := stream.Dropped()
	if err := (&checked{stream.Name, stream.Format, good, bad, dropped.ZeroOutput, dropped.Other, listed, stream.Misfit()}).writeEnd(s.Out, want.form); err != nil {
		return err
	}
	switch {
	case good == 0 && bad == 0:
		return &loadgen.SyntaxError{Name: stream.Name, Msg: "no requests in the file, must have at least one"}
	case allowed >= 0 && bad > allowed:
		return fmt.Errorf("%s: %d bad rows, must be at most %d", stream.Name, bad, allowed)
	}
	return nil
}

// checked is the result of validate.
type checked struct {
	Trace      string   `json:"trace"`
	Format     string   `json:"format"`
	Requests   int      `json:"requests"`
	BadRows    int      `json:"bad_rows"`
	ZeroOutput int      `json:"dropped_zero_output_requests"`
	Other      int      `json:"dropped_other_requests"`
	Listed     []string `json:"complaints"`       // the first bad rows
	Blocks     string   `json:"blocks,omitempty"` // which block size fits all rows, where theirs does not
}

// writeEnd writes the whole result as JSON, or the text after the list of errors.
func (c *checked) writeEnd(w io.Writer, form string) error {
	if form == "json" {
		return cli.WriteJSON(w, c)
	}
	if more := c.BadRows - len(c.Listed); more > 0 {
		fmt.Fprintf(w, "%s: %d more bad rows\n", c.Trace, more)
	}
	if c.Blocks != "" {
		fmt.Fprintf(w, "%s: %s\n", c.Trace, c.Blocks)
	}
	if d := (loadgen.Dropped{ZeroOutput: c.ZeroOutput, Other: c.Other}); d.Rows() > 0 {
		fmt.Fprintf(w, "%s: dropped: %s\n", c.Trace, d)
	}
	_, err := fmt.Fprintf(w, "%s: %s, %d requests, %d bad rows\n", c.Trace, c.Format, c.Requests, c.BadRows)
	return err
}

// checkRows counts good rows, and calls tell for rows that only the deployment cannot serve.
func checkRows(stream *formats.Stream, fits func(input, output int) error, tell func(error)) (good int, err error) {
	err = formats.Each(stream, func(r *formats.Record) error {
		if wrong := fits(int(r.Input), int(r.Output)); wrong != nil {
			tell(&loadgen.SyntaxError{Name: stream.Name, Line: r.Line, Msg: wrong.Error()})
			return nil
		}
		good++
		return nil
	})
	return good, err
}
