package cli

import (
	"fmt"
	"runtime/debug"
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

// Subcommand is a command of a program, made when it is wanted: the flags of all
// commands take more time and memory than a short replay.
type Subcommand struct {
	Name string
	make func(Streams) *cobra.Command
}

// NewSubcommand makes a command of a name.
func NewSubcommand(name string, make func(Streams) *cobra.Command) Subcommand {
	return Subcommand{name, make}
}

// NewProgram gives cmd what the root of a program has.
func NewProgram(cmd *cobra.Command) *cobra.Command {
	cmd.Version = Version()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetVersionTemplate(cmd.Use + " {{.Version}}\n")
	return cmd
}

// AddWanted adds the command that args begin with to cmd, and reports whether
// there is one.
func AddWanted(cmd *cobra.Command, s Streams, args []string, all []Subcommand) bool {
	for _, c := range all {
		if len(args) > 0 && args[0] == c.Name {
			cmd.AddCommand(c.make(s))
			return true
		}
	}
	return false
}

// AddAll adds all commands to cmd.
func AddAll(cmd *cobra.Command, s Streams, all []Subcommand) {
	for _, c := range all {
		cmd.AddCommand(c.make(s))
	}
}

// Version is that of the module, or of the commit it was built from.
func Version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := build.Main.Version
	if v == "" {
		v = "(devel)"
	}
	return v + " " + build.GoVersion
}
