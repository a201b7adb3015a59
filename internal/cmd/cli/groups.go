package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Subcommand is a command of a program, made when it is wanted: the flags of all
// commands take more time and memory than a short replay.
type Subcommand struct {
	Name string
	job  string // the title under which the help of the program lists it
	make func(Streams) *cobra.Command
}

// NewSubcommand makes a command of a name.
func NewSubcommand(name string, make func(Streams) *cobra.Command) Subcommand {
	return Subcommand{Name: name, make: make}
}

// ForJob returns commands that the help of the program lists under a title.
func ForJob(title string, commands ...Subcommand) []Subcommand {
	for i := range commands {
		commands[i].job = title
	}
	return commands
}

// NewProgram gives cmd what the root of a program has.
func NewProgram(cmd *cobra.Command) *cobra.Command {
	cmd.Version = Version()
	cobra.EnableCommandSorting = false // they are in the order in which people need them
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
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

// AddAll adds all commands to cmd, each under its job, if it has one.
func AddAll(cmd *cobra.Command, s Streams, all []Subcommand) {
	for _, c := range all {
		if c.job != "" && !cmd.ContainsGroup(c.job) {
			cmd.AddGroup(&cobra.Group{ID: c.job, Title: c.job + ":"})
		}
		made := c.make(s)
		made.GroupID = c.job
		cmd.AddCommand(made)
	}
	checkHelp(cmd)
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
