package machines

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/replay/deployment"
)

// noCommandError reports that a file starts no server.
type noCommandError struct{}

func (*noCommandError) Error() string { return "no command that starts a server" }

// started is the content of a file that starts servers.
type started struct {
	commands []deployment.Command
	configs  map[string]string // texts of files of settings, by name
}

// readStart returns the settings and the engine of the servers that a file starts. The servers must have equal
// settings.
func (f *initFlags) readStart() (known map[string]string, engine string, err error) {
	text, err := os.ReadFile(f.from)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", f.from, err)
	}
	all := &started{configs: map[string]string{}}
	if values, wrong := yamlfile.ListValues(f.from, text); wrong == nil {
		for _, value := range values {
			all.walk(value)
		}
	}
	if len(all.commands) == 0 {
		all.commands = deployment.ReadCommands(string(text))
	}
	if len(all.commands) == 0 {
		return nil, "", &noCommandError{}
	}
	for i := range all.commands {
		c := &all.commands[i]
		own, err := f.readFlags(all, c)
		switch {
		case err != nil:
			return nil, "", fmt.Errorf("%s: %w", f.from, err)
		case known != nil && c.Engine == "trtllm" && slices.Equal(listDifferent(known, own), []string{"disable-overlap-scheduler"}):
			delete(known, "disable-overlap-scheduler") // prefill workers do not support it
			delete(own, "disable-overlap-scheduler")
		case known != nil && !maps.Equal(known, own):
			return nil, "", fmt.Errorf("%s: servers with different %s: must be alike, as a deployment file is of one kind of servers", f.from, strings.Join(listDifferent(known, own), ", "))
		}
		known, engine = own, map[string]string{"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}[c.Engine]
	}
	return known, engine, nil
}

// readFlags returns the flags of a command, including those of the settings file that it names, which is in the
// manifest or next to the script.
func (f *initFlags) readFlags(all *started, c *deployment.Command) (map[string]string, error) {
	config := map[string]string{}
	if c.Config != "" && c.Engine == "trtllm" {
		name := filepath.Base(c.Config)
		text, ok := all.configs[name]
		if !ok {
			read, err := os.ReadFile(filepath.Join(filepath.Dir(f.from), c.Config))
			if err != nil {
				return nil, err
			}
			text = string(read)
		}
		values, err := yamlfile.ListValues(name, []byte(text))
		if err != nil {
			return nil, err
		}
		for _, value := range values {
			deployment.FlattenSettings(config, "", value)
		}
	}
	return c.Flags(config)
}

// walk collects the commands of containers and the texts of ConfigMaps in a manifest.
func (s *started) walk(value any) {
	switch v := value.(type) {
	case []any:
		for _, x := range v {
			s.walk(x)
		}
	case map[string]any:
		words := append(wordsOf(v["command"]), wordsOf(v["args"])...)
		if c, ok := deployment.ReadCommand(words); ok {
			s.commands = append(s.commands, c)
		} else if len(words) > 0 { // a shell command
			s.commands = append(s.commands, deployment.ReadCommands(strings.Join(words, "\n"))...)
		}
		if data, ok := v["data"].(map[string]any); ok {
			for name, text := range data {
				if text, ok := text.(string); ok {
					s.configs[name] = text
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			s.walk(v[name])
		}
	}
}

// wordsOf returns the words of a list.
func wordsOf(value any) []string {
	list, _ := value.([]any)
	words := make([]string, len(list))
	for i, x := range list {
		words[i] = fmt.Sprint(x)
	}
	return words
}

// listDifferent returns the names of settings that differ.
func listDifferent(a, b map[string]string) []string {
	var all []string
	for name, value := range a {
		if b[name] != value {
			all = append(all, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
