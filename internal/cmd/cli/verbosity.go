package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WithVerbosity adds the flags -q and -v to commands. The flags control the output on standard error.
func WithVerbosity(commands []Subcommand) []Subcommand {
	for i := range commands {
		make := commands[i].make
		commands[i].make = func(s Streams) *cobra.Command {
			cmd := make(s)
			addVerbosity(cmd)
			return cmd
		}
	}
	return commands
}

// addVerbosity adds the flags to cmd and its subcommands. addVerbosity does not replace an existing flag --quiet.
func addVerbosity(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		addVerbosity(c)
	}
	help := cmd.Flags().Lookup("help-all")
	if help == nil || !cmd.Runnable() || cmd.HasSubCommands() && cmd.Name() != "sweep" {
		return
	}
	whole := help.Value.(*wholeHelp)
	group := NewGroup("Messages", func(fs *pflag.FlagSet) {
		if cmd.Flags().Lookup("quiet") == nil {
			fs.BoolP("quiet", "q", false, "print only warnings and errors, no progress and no notes")
		}
		fs.BoolP("verbose", "v", false, "print the name of each file read, and the time that the command takes, on standard error")
	}).Rare()
	whole.sections = append(whole.sections, bindSections(cmd.Flags(), []Group{group})...)
}

// hasVerbosity reports whether the command line has -q or -v.
func (s Streams) hasVerbosity() (quiet, verbose bool, flags *pflag.FlagSet) {
	if !slices.ContainsFunc(s.Args, func(arg string) bool {
		short := strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--")
		return short && strings.ContainsAny(arg, "qv") || strings.HasPrefix(arg, "--quiet") || strings.HasPrefix(arg, "--verbose")
	}) {
		return false, false, nil
	}
	if flags = s.commandFlags(); flags == nil || flags.Lookup("verbose") == nil {
		return false, false, nil
	}
	quiet, _ = flags.GetBool("quiet")
	verbose, _ = flags.GetBool("verbose")
	return quiet, verbose, flags
}

// withVerbosity returns s with the standard error that -q or -v requests, and a function to call at the end of the
// command.
func (s Streams) withVerbosity() (Streams, func()) {
	quiet, verbose, flags := s.hasVerbosity()
	all := s.Err
	if quiet {
		s.Err = &warningsOnly{to: s.Err}
	}
	if !verbose {
		return s, func() {}
	}
	for _, path := range listInputs(flags) {
		if stat, err := os.Stat(path); err == nil && stat.Mode().IsRegular() {
			fmt.Fprintln(all, FormatNote(fmt.Sprintf("reads %s, %d bytes", path, stat.Size())))
		}
	}
	began := time.Now()
	return s, func() {
		fmt.Fprintln(all, FormatNote(fmt.Sprintf("took %.3f s", time.Since(began).Seconds())))
	}
}

// listInputs returns the arguments and flag values that may be input files.
func listInputs(flags *pflag.FlagSet) []string {
	paths := slices.Clone(flags.Args())
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains([]string{"out", "html", "metrics", "otlp", "timeline", "journal", "candidates", "markdown"}, f.Name) {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			paths = append(paths, list.GetSlice()...)
		} else {
			paths = append(paths, f.Value.String())
		}
	})
	return paths
}

// warningsOnly writes lines with warnings and drops all other lines.
type warningsOnly struct {
	to   io.Writer
	rest []byte // an incomplete line
}

func (w *warningsOnly) Write(text []byte) (int, error) {
	w.rest = append(w.rest, text...)
	for {
		line, rest, ended := bytes.Cut(w.rest, []byte{'\n'})
		if !ended {
			return len(text), nil
		}
		if bytes.HasPrefix(line, []byte(FormatWarning(""))) {
			if _, err := w.to.Write(append(bytes.Clone(line), '\n')); err != nil {
				return 0, err
			}
		}
		w.rest = rest
	}
}
