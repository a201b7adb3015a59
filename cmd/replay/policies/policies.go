// Package policies holds the command about policies that are text.
package policies

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/router/policy"
)

// NewPoliciesCommand returns the command that lists router policies that are text, and prints one.
func NewPoliciesCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policies [name]",
		Short: "List router policies to begin with, or print one",
		Long: `List router policies in the form of a file, as --router-policy takes it, and the
names that expressions in it may use. With a name, print that policy: it places
every request where --router NAME does. Change it, and see what comes of it
(docs/policies.md).`,
		Example: "  replay policies\n  replay policies kv > mine.yaml\n  replay trace requests.jsonl --workers 8 --router-policy mine.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listPolicies(s)
			}
			return printPolicy(s, args[0])
		},
	}
	return cli.BindOwn(cmd, func(*pflag.FlagSet) {})
}

// listPolicies prints the names of policies, and those that expressions may use.
func listPolicies(s cli.Streams) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "POLICY\tA REQUEST GOES TO")
	for _, name := range options.PolicyNames() {
		help := policy.Name(name).Info().Help
		if help == "" {
			help = "the highest of llm-d's scores: cached prefix 3, free KV cache 2, short queue 2"
		}
		fmt.Fprintf(w, "%s\t%s\n", name, help)
	}
	fmt.Fprintln(w, "\nNAME\tWHAT EXPRESSIONS READ")
	for _, f := range policy.Facts() {
		fmt.Fprintf(w, "%s\t%s\n", f.Name, f.Help)
	}
	return w.Flush()
}

// printPolicy prints the file of a policy.
func printPolicy(s cli.Streams, name string) error {
	text, err := options.PolicyText(name)
	if err != nil {
		names := options.PolicyNames()
		return cli.Usagef("%s: no such policy, want one of %s%s", name, strings.Join(names, ", "), nearest.Ask(name, names))
	}
	_, err = s.Out.Write(text)
	return err
}
