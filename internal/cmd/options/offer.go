package options

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// OfferSettings registers shell completion for flags with values NAME=VALUE,VALUE. OfferSettings completes the
// additional names, the names of flags for cells, and named values of these flags.
func OfferSettings(cmd *cobra.Command, others []string, flags ...string) {
	complete := func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		known, then := NewCellOptions().Set, cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp
		if name, values, ok := strings.Cut(begun, "="); ok {
			return listValues(known.Lookup(name), name+"="+values[:strings.LastIndex(values, ",")+1]), then
		}
		names := slices.Clone(others)
		known.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name+"=")
			}
		})
		return names, then
	}
	for _, flag := range flags {
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err)
		}
	}
}

// listValues returns the named values of a flag, each appended to begun.
func listValues(f *pflag.Flag, begun string) (all []string) {
	if f == nil {
		return nil
	}
	if v, ok := f.Value.(interface{ Choices() []string }); ok {
		for _, name := range v.Choices() {
			all = append(all, begun+name)
		}
	}
	return all
}
