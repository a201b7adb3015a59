package options

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// OfferSettings lets the shell complete flags that take NAME=VALUE,VALUE. It completes the given further names, then
// those of the flags that a cell may set, and the values of flags with named values.
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

// listValues returns the values that a flag has names for, each after what is begun.
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
