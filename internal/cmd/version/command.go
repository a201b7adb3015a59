package version

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// Subcommand is the command of a program that says what it is.
func Subcommand(program string) cli.Subcommand {
	return cli.NewSubcommand("version", func(s cli.Streams) *cobra.Command { return newCommand(s, program) })
}

func newCommand(s cli.Streams, program string) *cobra.Command {
	var form cli.Choice
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is, and whose rules it knows",
		Long: `Say which version this is, of which commit and by which Go, the releases of
engines whose rules it knows, the versions of what it writes, and the origin of
its measured operator times. Between two releases in a line of rules, those of
the first hold.`,
		Example: `  ` + program + ` version
  ` + program + ` version --output json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("%q: must be no arguments", args[0])
			}
			build, _ := debug.ReadBuildInfo()
			d := newDocument(program, build)
			if form.Value == "json" {
				return cli.WriteJSON(s.Out, d)
			}
			return d.WriteText(s.Out)
		},
	}
	return cli.BindOwn(cmd, func(fs *pflag.FlagSet) {
		cli.BindForm(fs, &form)
		cli.BindOldJSON(fs, &form)
	})
}

// WriteText writes the document for people.
func (d *Document) WriteText(w io.Writer) error {
	commit := "not known"
	if d.Commit != "" {
		commit = d.Commit
	}
	if d.Date != "" {
		commit += " of " + d.Date
	}
	if d.Changed {
		commit += ", with changes"
	}
	_, err := fmt.Fprintf(w, `%s %s
commit:   %s
built by: %s for %s
rules:    vLLM %s, SGLang %s
compat:   %s
formats:  digest %s, run directory %d, timing profile %d
tables:   %s %s, %d GPUs
`, d.Program, d.Version, commit, d.Go, d.System, strings.Join(d.Rules["vllm"], " "), strings.Join(d.Rules["sglang"], " "),
		strings.Join(d.Compat, " "), d.Formats.Digest, d.Formats.Run, d.Formats.Profile,
		d.Tables.Source, d.Tables.Release, len(d.Tables.GPUs))
	return err
}
