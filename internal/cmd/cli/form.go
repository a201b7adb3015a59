package cli

import (
	"io"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/json"
)

// BindForm adds the flag --output for the format of the output: a table, or JSON for programs.
func BindForm(fs *pflag.FlagSet, form *Choice) {
	*form = Choice{Names: []string{"table", "json"}, Value: "table"}
	fs.Var(form, "output", "`form` of the output: table or json")
}

// BindOldJSON adds --json, the former name of --output json.
func BindOldJSON(fs *pflag.FlagSet, form *Choice) {
	fs.BoolFunc("json", "as --output json", func(string) error { return form.Set("json") })
	Hide(fs, "json")
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
