package explore

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/json"
)

// inOrder returns the names of settings in the order of the knobs, without the trace.
func (s *Session) inOrder(settings Settings) []string {
	var names []string
	for _, k := range s.knobs() {
		if _, ok := settings[k.Flag]; ok {
			names = append(names, k.Flag)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if name != options.TraceSetting && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// commandOf returns the shell command line for the settings with the given names.
func commandOf(settings Settings, names []string) string {
	verb := "trace"
	if _, ok := settings["max-in-flight"]; ok {
		verb = "concurrency"
	}
	parts := []string{"replay", verb, quoteWord(settings[options.TraceSetting])}
	for _, name := range names {
		if value := settings[name]; value == "true" || value == "false" { // without "=", the shell would pass the value as a separate argument
			parts = append(parts, "--"+name+"="+value)
			continue
		}
		parts = append(parts, "--"+name, quoteWord(settings[name]))
	}
	return strings.Join(parts, " ")
}

// quoteWord quotes text as one word for a shell.
func quoteWord(text string) string {
	if regexp.MustCompile(`^[\w./:=,+@%-]+$`).MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// yamlOf returns a file for --config with the settings with the given names.
func yamlOf(settings Settings, names []string) string {
	var b strings.Builder
	for _, name := range names {
		value := settings[name]
		if !regexp.MustCompile(`^(\d+|\d+\.\d+|[a-z][a-z_]*)$`).MatchString(value) || slices.Contains([]string{"null", "true", "false", "yes", "no"}, value) {
			quoted, _ := json.Marshal(value) // encoding a string cannot fail
			value = string(quoted)
		}
		fmt.Fprintf(&b, "%s: %s\n", name, value)
	}
	return b.String()
}
