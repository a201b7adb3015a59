package options

import (
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
)

// output holds the flags that say where the report goes.
type output struct {
	Path    string
	Form    cli.Choice
	Drawing drawing
}

func (out *output) bindFlags(fs *pflag.FlagSet) {
	out.Form = cli.Choice{Names: []string{"table", "json"}, Value: "table"}
	fs.StringVar(&out.Path, "report-json", "", "also write the report to `FILE`; in a directory, to a file named after the time")
	fs.Var(&out.Form, "output", "`form` of the report on standard output: table or json")
	out.Drawing.bindFlags(fs)
}
