package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Group creates the flags of a section of the help.
type Group struct {
	title  string
	Bind   func(*pflag.FlagSet)
	common []string // flags in the short help
	rare   bool     // the short help only shows common
	listed string   // command that lists the flags that --help-all omits; "": it omits no flags
	shown  []string // additional flags that --help-all shows
}

// NewGroup returns a group of flags. The short help shows the common flags, or all flags if there are no common
// flags.
func NewGroup(title string, bind func(*pflag.FlagSet), common ...string) Group {
	return Group{title: title, Bind: bind, common: common, rare: len(common) > 0}
}

// Rare removes flags that are not common from the short help.
func (g Group) Rare() Group {
	g.rare = true
	return g
}

// ListedBy limits --help-all to the common flags and the given flags. The given command lists all flags of the group.
func (g Group) ListedBy(command string, shown ...string) Group {
	g.listed, g.shown = command, shown
	return g
}

// IsListed reports whether --help-all omits flags of the group.
func (g *Group) IsListed() bool { return g.listed != "" }

// Title returns the heading of the group in the help.
func (g *Group) Title() string { return g.title }

// section is a group with its flags.
type section struct {
	Group
	flags *pflag.FlagSet
}

// commonFlags returns the flags in the short help.
func (s *section) commonFlags() *pflag.FlagSet {
	if !s.rare {
		return s.flags
	}
	return s.pickFlags(s.common)
}

// wholeFlags returns the flags in the output of --help-all.
func (s *section) wholeFlags() *pflag.FlagSet {
	if !s.IsListed() {
		return s.flags
	}
	return s.pickFlags(append(s.common[:len(s.common):len(s.common)], s.shown...))
}

func (s *section) pickFlags(names []string) *pflag.FlagSet {
	fs := newUnsorted(s.title)
	for _, name := range names {
		fs.AddFlag(s.flags.Lookup(name))
	}
	return fs
}

// Widths of the help, in columns.
const (
	shortWidth = 80
	fullWidth  = 110
)

// bindSections creates the flags of each group and adds them to fs in order.
func bindSections(fs *pflag.FlagSet, groups []Group) []section {
	var all []section
	for _, g := range groups {
		own := newUnsorted(g.title)
		g.Bind(own)
		addShorthands(own)
		fs.AddFlagSet(own)
		all = append(all, section{g, own})
	}
	return all
}

// addShorthands adds the short flags -o and -j.
func addShorthands(fs *pflag.FlagSet) {
	for name, short := range map[string]string{"output": "o", "jobs": "j"} {
		f := fs.Lookup(name)
		if f == nil {
			continue
		}
		if _, isForm := f.Value.(*Choice); isForm || name == "jobs" {
			f.Shorthand = short
		}
	}
}

// newUnsorted returns a flag set without sorting.
func newUnsorted(title string) *pflag.FlagSet {
	fs := pflag.NewFlagSet(title, pflag.ContinueOnError)
	fs.SortFlags = false
	return fs
}

// wholeHelp is the flag --help-all.
type wholeHelp struct {
	set      *pflag.FlagSet
	given    bool
	sections []section
}

func (h *wholeHelp) String() string { return strconv.FormatBool(h.given) }
func (h *wholeHelp) Type() string   { return "bool" }

func (h *wholeHelp) Set(text string) (err error) {
	if h.given, err = strconv.ParseBool(text); err != nil {
		return err
	}
	return h.set.Set("help", text)
}

// setUsage sets the usage text of cmd. The help lists the flags by section: the common flags, or all flags with
// --help-all.
func setUsage(cmd *cobra.Command, all []section) {
	whole := &wholeHelp{set: cmd.Flags(), sections: all}
	cmd.Flags().VarPF(whole, "help-all", "", "print this help with all flags").NoOptDefVal = "true"
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		var b strings.Builder
		fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
		if cmd.HasExample() {
			fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
		}
		writeCommands(&b, cmd)
		rest := 0
		for _, s := range whole.sections {
			title, usages := s.title, ""
			if whole.given {
				all := s.wholeFlags()
				usages = all.FlagUsagesWrapped(fullWidth)
				if n := countShown(s.flags) - countShown(all); n > 0 {
					usages += fmt.Sprintf("      %d more: %s\n", n, s.listed)
				}
			} else {
				common := s.commonFlags()
				rest += countShown(s.wholeFlags()) - countShown(common)
				title, _, _ = strings.Cut(title, " (")
				usages = common.FlagUsagesWrapped(shortWidth)
			}
			if usages != "" {
				fmt.Fprintf(&b, "\n%s:\n%s", title, usages)
			}
		}
		if rest > 0 {
			fmt.Fprintf(&b, "\n--help-all shows the rest: %d more.\n", rest)
		}
		_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
		return err
	})
}

// sectionsOf returns the help sections of cmd.
func sectionsOf(cmd *cobra.Command) []section {
	if f := cmd.Flags().Lookup("help-all"); f != nil {
		if whole, ok := f.Value.(*wholeHelp); ok {
			return whole.sections
		}
	}
	return nil
}

// TitlesOf returns the headings of the help sections of cmd, in order.
func TitlesOf(cmd *cobra.Command) (titles []string) {
	for _, s := range sectionsOf(cmd) {
		titles = append(titles, s.title)
	}
	return titles
}

// TitleOf returns the heading of the help section of a flag, or "" if the flag is in no section.
func TitleOf(cmd *cobra.Command, flag string) string {
	for _, s := range sectionsOf(cmd) {
		if s.flags.Lookup(flag) != nil {
			return s.title
		}
	}
	return ""
}

// countShown returns the number of flags that are not hidden.
func countShown(fs *pflag.FlagSet) int {
	n := 0
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			n++
		}
	})
	return n
}

// writeCommands lists the subcommands of cmd.
func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	title := "\nCommands:\n"
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(b, "%s  %-*s %s\n", title, c.NamePadding(), c.Name(), c.Short)
			title = ""
		}
	}
}
