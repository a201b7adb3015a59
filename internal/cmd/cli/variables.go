package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/nearest"
)

// variablePrefix is the prefix of environment variables that set flags.
const variablePrefix = "REPLAY_"

// isOther reports whether a variable with the prefix does not set a flag. Variables that do not set a flag are read
// elsewhere, or Kubernetes sets them in pods for a service with the name replay.
func isOther(name, value string) bool {
	for _, prefix := range []string{"LINK_", "TEST_", "SERVICE_", "PORT_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"ALLOW_DIAL", "DATA", "LONG", "PROGRESS", "PYTHON"}, name) || strings.HasPrefix(value, "tcp://") || strings.HasPrefix(value, "udp://")
}

// variableOf returns the name of the environment variable for a flag.
func variableOf(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readVariables returns the values that environment variables set, by flag.
func readVariables(environ []string) map[string]string {
	given := map[string]string{}
	for _, entry := range environ {
		text, ok := strings.CutPrefix(entry, variablePrefix)
		if name, value, _ := strings.Cut(text, "="); ok && value != "" && !isOther(name, value) {
			given[strings.ToLower(strings.ReplaceAll(name, "_", "-"))] = value
		}
	}
	return given
}

// userFile returns the path of the user's config file: $XDG_CONFIG_HOME/replay/config.yaml, by default below
// ~/.config.
func userFile() string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if home, err := os.UserHomeDir(); dir == "" && err == nil {
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "replay", "config.yaml")
}

// readUserFile returns the settings of the user's config file as environment variables. A missing file has no
// settings.
func readUserFile(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil || !filepath.IsAbs(path) {
		return nil, nil
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, Usagef("%s: must be flags and their values, as workers: 4", path)
	}
	var environ []string
	for name, value := range values {
		switch value.(type) {
		case string, bool, uint64, int64, float64:
			environ = append(environ, variableOf(name)+"="+fmt.Sprint(value))
		default:
			return nil, Usagef("%s: %s: must be one value", path, name)
		}
	}
	return environ, nil
}

// withVariables returns s with the flags that environment variables set appended to the command line. Flags on the
// command line have precedence. Variables for flags that the command does not have are ignored.
func (s Streams) withVariables(environ []string) (Streams, error) {
	given := readVariables(environ)
	if len(given) == 0 {
		return s, nil
	}
	set := s.commandFlags()
	if set == nil {
		return s, nil
	}
	var names, args []string
	for name := range given {
		names = append(names, name)
	}
	slices.Sort(names)
	var unknown []string
	for _, name := range names {
		flag := set.Lookup(name)
		if flag == nil {
			unknown = append(unknown, name)
			continue
		}
		if flag.Changed || strings.HasPrefix(flag.Name, "help") {
			continue
		}
		if err := set.Set(flag.Name, given[name]); err != nil {
			var invalid *pflag.InvalidValueError
			if errors.As(err, &invalid) {
				err = invalid.Unwrap()
			}
			return s, Usagef("%s=%s: must be %s", variableOf(name), given[name], WantedKind(flag.Value.Type(), err))
		}
		args = append(args, "--"+name+"="+given[name])
		s.variables = append(s.variables, name)
	}
	if len(unknown) > 0 {
		if err := s.checkNames(unknown, set); err != nil {
			return s, err
		}
	}
	end := slices.Index(s.Args, "--")
	if end < 0 {
		end = len(s.Args)
	}
	s.Args = slices.Insert(slices.Clone(s.Args), end, args...)
	return s, nil
}

// commandFlags returns the parsed flags of the command. commandFlags returns nil for help, for commands of another
// program and for invalid command lines.
func (s Streams) commandFlags() *pflag.FlagSet {
	if len(s.Args) > 0 && strings.HasPrefix(s.Args[0], cobra.ShellCompRequestCmd) {
		return nil
	}
	root := s.Program(s, s.Args)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(s.Args...)
	cmd, args, err := root.Find(s.Args)
	if err == nil {
		cmd.InitDefaultHelpFlag()
	}
	if err != nil || cmd.DisableFlagParsing || !cmd.Runnable() || cmd.Name() == "help" || cmd.HasParent() && cmd.Parent().Name() == "completion" || cmd.ParseFlags(args) != nil {
		return nil
	}
	if help, err := cmd.Flags().GetBool("help"); err != nil || help {
		return nil
	}
	return cmd.Flags()
}

// flagsElsewhere returns flags of replay or replay-live that resemble a flag of the other program.
func flagsElsewhere() []string {
	return strings.Fields(`body-timeout bytes-per-token class fault for gpus grace header kv-events-config kv-events-host kv-events-port kv-transfer-config max-num-queued-tokens max-queued-requests no-stream part-time precision
		agent-output etcd-port head idle-timeout nats-port prompt-block-size queue-timeout repeat replay replays rescale session-header stream-timeout to top trace upstream
		wall-time write-timeout`)
}

// checkNames returns an error for the first variable that names no flag of the program but resembles one.
func (s Streams) checkNames(names []string, own *pflag.FlagSet) error {
	known := FlagNames(own)
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		known = append(known, FlagNames(cmd.Flags())...)
		for _, c := range cmd.Commands() {
			add(c)
		}
	}
	add(s.Program(s, []string{"help"}))
	slices.Sort(known)
	known = slices.Compact(known)
	for _, name := range names {
		if near := nearest.Name(name, known); near != "" && near != name && !slices.Contains(flagsElsewhere(), name) {
			return Usagef("%s: no such flag, did you mean %s?", variableOf(name), variableOf(near))
		}
	}
	return nil
}

// nameVariables replaces flags in the text of an error with the environment variables that set them. nameVariables
// does not replace flags that the error suggests.
func (s Streams) nameVariables(text string) string {
	for _, name := range s.variables {
		for _, after := range []string{"=", ":", " is ", " and ", " requires "} {
			text = strings.ReplaceAll(text, "--"+name+after, variableOf(name)+after)
		}
	}
	return text
}
