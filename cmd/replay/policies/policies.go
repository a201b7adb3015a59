// Package policies holds the command about policies that are text files.
package policies

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/router/policy"
)

// NewPoliciesCommand returns the command policies, which lists router policies in text form and prints one of them.
func NewPoliciesCommand(s cli.Streams) *cobra.Command {
	var form cli.Choice
	cmd := &cobra.Command{
		Use:   "policies [name]",
		Short: "List router policies that can be edited, or print one",
		Long: `List the router policies that are available as a file for --router-policy. The
list ends with the names that expressions in such files (docs/policies.md) and
rules of an autoscaler (docs/autoscaling.md) can use. With a name, print that
policy as a file; it routes every request as --router NAME does.`,
		Example: "  replay policies\n  replay policies kv > mine.yaml\n  replay trace requests.jsonl --workers 8 --router-policy mine.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			switch asJSON := form.Value == "json"; {
			case len(args) > 0 && asJSON:
				return cli.Usagef("--output json with %s: a policy is YAML, expected the list alone", args[0])
			case len(args) > 0:
				return printPolicy(s, args[0])
			case asJSON:
				return cli.WriteJSON(s.Out, makeCatalogue())
			}
			return writeCatalogue(s)
		},
	}
	return cli.BindOwn(cmd, func(fs *pflag.FlagSet) { cli.BindForm(fs, &form) })
}

// catalogue holds the policies, and the names that expressions may use.
type catalogue struct {
	Policies []entry `json:"policies"`
	Names    []entry `json:"names"`
	Scaler   []entry `json:"autoscaler_names"` // of its rules
}

type entry struct {
	Name string `json:"name"`
	Help string `json:"help"`
}

func makeCatalogue() *catalogue {
	c := &catalogue{}
	for _, name := range files.PolicyNames() {
		help := policy.Name(name).Info().Help
		if help == "" {
			help = "the worker with the highest score of llm-d: weights 3 for cached prefix, 2 for free KV cache, 2 for a short queue"
		}
		c.Policies = append(c.Policies, entry{name, help})
	}
	for _, f := range policy.Facts() {
		c.Names = append(c.Names, entry{f.Name, f.Help})
	}
	for _, f := range autoscale.Facts() {
		c.Scaler = append(c.Scaler, entry{f.Name, f.Help})
	}
	return c
}

// writeCatalogue prints the catalogue as three tables.
func writeCatalogue(s cli.Streams) error {
	c := makeCatalogue()
	_, err := fmt.Fprintf(s.Out, "%s\n%s\n%s", formatEntries("POLICY", "A REQUEST GOES TO", c.Policies), formatEntries("NAME", "WHAT EXPRESSIONS READ", c.Names),
		formatEntries("AUTOSCALER NAME", "WHAT RULES OF AN AUTOSCALER READ", c.Scaler))
	return err
}

// formatEntries returns names with their meanings next to them.
func formatEntries(name, help string, all []entry) string {
	width := len(name)
	for _, e := range all {
		width = max(width, len(e.Name))
	}
	var b strings.Builder
	for _, e := range append([]entry{{name, help}}, all...) {
		b.WriteString(terminal.WrapLine(fmt.Sprintf("%-*s  %s", width, e.Name, e.Help), width+2) + "\n")
	}
	return b.String()
}

// printPolicy prints the file of a policy.
func printPolicy(s cli.Streams, name string) error {
	text, err := files.PolicyText(name)
	if err != nil {
		names := files.PolicyNames()
		return cli.Usagef("%s: unknown policy, must be one of %s%s", name, strings.Join(names, ", "), nearest.Ask(name, names))
	}
	_, err = s.Out.Write(text)
	return err
}
