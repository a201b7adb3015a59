package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/replay/root"
)

// verb is a command of the program.
type verb struct {
	name  string // such as "traces convert"; "": the program without a command
	flags *pflag.FlagSet
	names []string // names of all flags
}

func (v *verb) words() []string { return strings.Fields(v.name) }

// listUnfit returns the commands that are not run. A command is not run if it serves until it is stopped, or if
// another program implements it.
func listUnfit() []string { return []string{"ui", "completion"} }

// unfitFlags returns the excluded flags and the reasons.
func unfitFlags() map[string]string {
	return map[string]string{
		"mode":           "real time: no two runs are the same",
		"policy-process": "programs, sockets and hosts",
		"watch":          "draws until it is stopped",
		"version":        "names the build",
	}
}

// listVerbs returns the commands of the program with their flags.
func listVerbs() []*verb {
	var all []*verb
	var visit func(cmd *cobra.Command, name string)
	visit = func(cmd *cobra.Command, name string) {
		if cmd.DisableFlagParsing || slices.Contains(listUnfit(), name) {
			return
		}
		cmd.InitDefaultHelpFlag()
		v := &verb{name: name, flags: cmd.Flags()}
		v.flags.VisitAll(func(f *pflag.Flag) {
			if unfitFlags()[f.Name] == "" {
				v.names = append(v.names, f.Name)
			}
		})
		all = append(all, v)
		for _, sub := range cmd.Commands() {
			visit(sub, strings.TrimSpace(name+" "+sub.Name()))
		}
	}
	visit(makeTree(root.New), "")
	return all
}

// makeTree returns the command tree without input and output streams.
func makeTree[S any](program func(S, []string) *cobra.Command) *cobra.Command {
	var none S
	return program(none, nil)
}

// findVerb returns the verb at the beginning of words, and the remaining words. findVerb returns nil for verbs that
// are not run.
func findVerb(verbs []*verb, words []string) (*verb, []string) {
	var best *verb
	for _, v := range verbs {
		if n := len(v.words()); n <= len(words) && slices.Equal(v.words(), words[:n]) && (best == nil || n > len(best.words())) {
			best = v
		}
	}
	if best != nil && best.name == "" && (len(words) == 0 || !strings.HasPrefix(words[0], "-")) {
		return nil, nil
	}
	return best, words[len(best.words()):]
}

// part is a flag or another argument of a command line.
type part struct {
	flag  string // without dashes; "": not a flag
	value string
	bare  bool // a flag without a value
}

// split parses the arguments of a verb.
func (v *verb) split(words []string) []part {
	var parts []part
	for i := 0; i < len(words); i++ {
		name, dashed := strings.CutPrefix(words[i], "--")
		if !dashed {
			parts = append(parts, part{value: words[i]})
			continue
		}
		name, value, given := strings.Cut(name, "=")
		f := v.flags.Lookup(name)
		if !given && f != nil && f.NoOptDefVal == "" && i+1 < len(words) {
			i++
			value, given = words[i], true
		}
		parts = append(parts, part{name, value, !given})
	}
	return parts
}

// joinParts is the inverse of split.
func joinParts(parts []part) []string {
	var words []string
	for _, p := range parts {
		switch {
		case p.flag == "":
			words = append(words, p.value)
		case p.bare:
			words = append(words, "--"+p.flag)
		default:
			words = append(words, "--"+p.flag+"="+p.value)
		}
	}
	return words
}
