package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Subcommand creates a command of a program on demand, because creating the flags of all commands takes longer than a
// short replay.
type Subcommand struct {
	Name string
	job  string // title above the command in the help of the program
	make func(Streams) *cobra.Command
}

// NewSubcommand returns a subcommand with a name.
func NewSubcommand(name string, make func(Streams) *cobra.Command) Subcommand {
	return Subcommand{Name: name, make: make}
}

// ForJob sets the title under which the help of the program lists the commands.
func ForJob(title string, commands ...Subcommand) []Subcommand {
	for i := range commands {
		commands[i].job = title
	}
	return commands
}

// NewProgram configures cmd as the root command of a program.
func NewProgram(cmd *cobra.Command) *cobra.Command {
	cmd.Version = Version()
	cobra.EnableCommandSorting = false // the help lists commands in the given order
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd
}

// AddWanted adds the command with the name args[0] to cmd. AddWanted reports whether the command exists.
func AddWanted(cmd *cobra.Command, s Streams, args []string, all []Subcommand) bool {
	for _, c := range all {
		if len(args) > 0 && args[0] == c.Name {
			cmd.AddCommand(c.make(s))
			return true
		}
	}
	return false
}

// AddAll adds all commands to cmd, grouped by their titles.
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

// Version returns the version of the module, or the commit of the build.
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
