// Package schemas holds the command that prints the JSON Schemas of input files and of results.
package schemas

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/cmd/replay/records"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/cmd/sweeps"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/schema"
)

// file is a file format.
type file struct {
	name, help string
	shape      func() schema.Shape
}

// listFiles returns all file formats.
func listFiles(s cli.Streams) []file {
	of := func(name string) func() schema.Shape {
		return func() schema.Shape { return files.Shapes()[name] }
	}
	return []file{
		{"deployment", "GPU, model and engine: --deployment, replay init", options.DeploymentShape},
		{"config", "flags of a replay: --config", func() schema.Shape { return options.ConfigShape(runs.NewTraceCommand(s, nil).Flags()) }},
		{"grid", "grid of a sweep: replay sweep GRID", sweeps.GridShape},
		{"autoscaler", "settings of an autoscaler: --autoscale", of("autoscaler")},
		{"policy", "router policy: --router-policy", of("policy")},
		{"admission", "rules that hold or reject requests: --admission", of("admission")},
		{"faults", "faults to inject: --faults", of("faults")},
		{"scale", "changes of the number of workers over time: --scale", of("scale")},
		{"classes", "request classes: --classes", of("classes")},
		{"budgets", "budgets for the values of a report: replay check BUDGETS", records.BudgetShape},
		{"engine-args", "engine arguments, JSON: --engine-args @FILE", func() schema.Shape { return schema.ObjectShape(engineargs.Rows()) }},
		{"report", "keys of the report: --output json, --report-json", reportShape},
		{"requests", "columns of the file of requests: --requests, --out", requestShape},
	}
}

// NewSchemaCommand returns the command that prints the JSON Schema of a file format.
func NewSchemaCommand(s cli.Streams) *cobra.Command {
	all := listFiles(s)
	var names []string
	var table strings.Builder
	for _, f := range all {
		names = append(names, f.name)
		fmt.Fprintf(&table, "%-12s  %s\n", f.name, f.help)
	}
	return cli.BindGroups(&cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON Schema of a file that replay reads or writes",
		Long: `Print the JSON Schema (draft 2020-12) of a file format, for editors and other
programs that check files. Without NAME, list the formats:

  ` + strings.ReplaceAll(strings.TrimSpace(table.String()), "\n", "\n  ") + `

Editors with yaml-language-server read it by a comment in the first line:

  # yaml-language-server: $schema=deployment.schema.json`,
		Example:   "  replay schema\n  replay schema deployment > deployment.schema.json",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := io.WriteString(s.Out, table.String())
				return err
			}
			for _, f := range all {
				if f.name == args[0] {
					return cli.WriteJSON(s.Out, schema.Document("replay: "+f.help, f.shape()))
				}
			}
			return cli.Usagef("%s: no such file, must be %s%s", args[0], cli.Either(names), nearest.Ask(args[0], names))
		},
	})
}
