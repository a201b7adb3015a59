package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// section is flags that belong together in the help.
type section struct {
	title string
	flags *pflag.FlagSet
}

// Group is how the flags of a section are made.
type Group struct {
	title string
	Bind  func(*pflag.FlagSet)
}

// NewGroup makes a group of flags.
func NewGroup(title string, bind func(*pflag.FlagSet)) Group { return Group{title, bind} }

// helpWidth is the width of the help in columns.
const helpWidth = 110

// bindSections bind a group of flags each and add them to fs, in order.
func bindSections(fs *pflag.FlagSet, groups []Group) []section {
	var all []section
	for _, g := range groups {
		own := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		own.SortFlags = false
		g.Bind(own)
		fs.AddFlagSet(own)
		all = append(all, section{g.title, own})
	}
	return all
}

// setUsage makes the help of cmd show its flags by section.
func setUsage(cmd *cobra.Command, all []section) {
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		var b strings.Builder
		fmt.Fprintf(&b, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
		for _, s := range all {
			if usages := s.flags.FlagUsagesWrapped(helpWidth); usages != "" {
				fmt.Fprintf(&b, "\n%s:\n%s", s.title, usages)
			}
		}
		_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
		return err
	})
}
