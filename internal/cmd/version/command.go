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

// Subcommand returns the command that prints the version of a program.
func Subcommand(program string) cli.Subcommand {
	return cli.NewSubcommand("version", func(s cli.Streams) *cobra.Command { return newCommand(s, program) })
}

func newCommand(s cli.Streams, program string) *cobra.Command {
	var form cli.Choice
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the engine releases that are simulated",
		Long: `Print the version of the program, its commit and its Go release, the releases of
engines with known rules, the versions of the files that it writes, and the
origin of its measured operator times. A release between two listed releases
follows the rules of the earlier one.`,
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

// WriteText writes the document as text.
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
