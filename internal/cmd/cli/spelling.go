package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/internal/nearest"
)

// CheckSpelling returns an error if the first argument is not a file and resembles the name of a subcommand of cmd.
func CheckSpelling(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	ask := nearest.Ask(args[0], commandNames(cmd))
	if _, err := os.Stat(args[0]); err == nil || ask == "" {
		return nil
	}
	return Usagef("%s: neither a command nor a file%s", args[0], ask)
}

// WantCommand returns the error of a command that requires a subcommand.
func WantCommand(cmd *cobra.Command, args []string) error {
	names := commandNames(cmd)
	if len(args) == 0 {
		return Usagef("%s: requires a command: %s", cmd.Name(), Either(names))
	}
	ask := nearest.Ask(args[0], names)
	if ask == "" {
		ask = ", must be " + Either(names)
	}
	return Usagef("%s %s: no such command%s", cmd.Name(), strings.Join(args, " "), ask)
}

// NoArgs returns an error if there are arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s %s: must be no arguments", cmd.Name(), strings.Join(args, " "))
	}
	return nil
}

// commandNames returns the names of the available subcommands of cmd.
func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// checkHelp makes the help command reject unknown commands.
func checkHelp(cmd *cobra.Command) {
	cmd.InitDefaultHelpCmd()
	for _, help := range cmd.Commands() {
		if help.Name() != "help" {
			continue
		}
		print := help.Run
		help.Run, help.RunE = nil, func(c *cobra.Command, args []string) error {
			if about, rest, err := c.Root().Find(args); err != nil || len(rest) > 0 {
				return WantCommand(about, rest)
			}
			print(c, args)
			return nil
		}
	}
}

// QuoteCommand returns a command line of replay, quoted for a shell.
func QuoteCommand(args []string) string {
	words := []string{"replay"}
	for _, arg := range args {
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'\\$&|;<>()*?[]{}`#~!") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}
