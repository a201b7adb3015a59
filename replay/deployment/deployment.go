// Package deployment holds the contents of a deployment file, which describes a served model: the GPU, the model and
// its parallelism, the engine and its settings. The file is YAML, and its keys are the names of flags. Package
// options reads it in the same way as a file of flags.
//
// Read deployment.go, vllmlog.go and sglanglog.go.
package deployment

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/schema"
)

// Setting is one line of the file.
type Setting struct {
	Flag    string
	Value   string // "": not known; the line is a comment with Default
	Default string // the value that holds without the line; "": an unknown setting has no line
	Help    string
}

// Settings returns all settings that a file may have, in the order of their lines. The settings have no values.
func Settings() (all []Setting) {
	for _, r := range schema.Placed(listRows()) {
		all = append(all, Setting{r.Flag, "", r.File.Default, r.File.Help})
	}
	return all
}

// listRows returns the settings of the hardware and of the engines.
func listRows() []schema.Row { return append(hardware.Settings(), engineargs.Rows()...) }

// readLogged sets the flags that correspond to the arguments of an engine's server. The arguments have the names that
// the engine's log uses.
func readLogged(known map[string]string, engine string, args map[string]string) {
	for _, l := range schema.Logs(listRows(), engine) {
		text := args[l.Name]
		switch {
		case l.Opposite && text == "True":
			known[l.Flag] = "false"
		case l.Opposite && text == "False":
			known[l.Flag] = "true"
		case !l.Opposite && text != "" && text != "None":
			known[l.Flag] = strings.ReplaceAll(strings.ReplaceAll(text, "True", "true"), "False", "false")
		}
	}
}

// Flags returns the names of the flags of all settings.
func Flags() []string {
	var names []string
	for _, s := range Settings() {
		names = append(names, s.Flag)
	}
	return names
}

// Fill returns the settings with known values, and with the defaults in usual. The maps known and usual have flags as
// keys.
func Fill(settings []Setting, known, usual map[string]string) []Setting {
	filled := slices.Clone(settings)
	for i := range filled {
		if value := known[filled[i].Flag]; value != "" {
			filled[i].Value = value
		}
		if value := usual[filled[i].Flag]; value != "" {
			filled[i].Default = value
		}
	}
	return filled
}

// Write writes a file with a comment on every line. A setting without a value is commented out.
func Write(w io.Writer, title string, settings []Setting) error {
	text := &strings.Builder{}
	fmt.Fprintf(text, "# %s\n# replay trace requests.jsonl --deployment FILE --workers 4\n", title)
	for _, s := range settings {
		if s.Value == "" && s.Default == "" {
			continue
		}
		line := s.Flag + ": " + s.Value
		if s.Value == "" {
			line = "# " + s.Flag + ": " + s.Default
		}
		fmt.Fprintf(text, "%-40s # %s\n", line, s.Help)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
