// Package deployment holds the contents of a deployment file, which describes a served model: the GPU, the model and how it is
// spread, the engine and its settings. The file is YAML, with the names of flags as keys; package options reads it as it reads a
// file of flags.
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

// Setting is a line of the file.
type Setting struct {
	Flag    string
	Value   string // "": not known, written as a comment with Default
	Default string // what holds when nothing is said; "": the line is left out where nothing is known
	Help    string
}

// Settings returns all settings a file may have, in the order in which they are
// written, none of them known.
func Settings() (all []Setting) {
	for _, r := range schema.Placed(listRows()) {
		all = append(all, Setting{r.Flag, "", r.File.Default, r.File.Help})
	}
	return all
}

// listRows returns the settings of engines, and of what they run on.
func listRows() []schema.Row { return append(hardware.Settings(), engineargs.Rows()...) }

// readLogged sets the flags that arguments of an engine's server stand for, by the names that its log has.
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

// Flags returns the names of all settings.
func Flags() []string {
	var names []string
	for _, s := range Settings() {
		names = append(names, s.Flag)
	}
	return names
}

// Fill sets the known settings, and the defaults of all other settings, by flag.
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

// Write writes a file with a comment on every line. What is not known is commented out.
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
