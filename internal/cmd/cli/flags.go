package cli

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/nearest"
)

// Flags has the flags of a command and their values.
type Flags struct {
	Set *pflag.FlagSet
	// Spelled has the name with which a flag was given, if it is an alias, by the name of the flag.
	Spelled map[string]string
	// Places has the position in a config file that sets a flag, by the name of the flag.
	Places map[string]string
}

// Bind adds groups of flags to cmd. The help of cmd lists flags by group.
func (f *Flags) Bind(cmd *cobra.Command, groups ...Group) {
	f.Set = cmd.Flags()
	f.Set.SortFlags = false
	setUsage(cmd, bindSections(f.Set, groups))
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return f.flagError(err) })
	f.Set.VisitAll(func(flag *pflag.Flag) { offerNames(cmd, flag) })
}

// BindGroups adds groups of flags to a command that is not a replay.
func BindGroups(cmd *cobra.Command, groups ...Group) *cobra.Command {
	new(Flags).Bind(cmd, groups...)
	BindHelp(cmd.Flags())
	return cmd
}

// BindOwn adds the flags of a command that has a single group of flags.
func BindOwn(cmd *cobra.Command, bind func(*pflag.FlagSet)) *cobra.Command {
	new(Flags).Bind(cmd, NewGroup("Flags", func(fs *pflag.FlagSet) {
		bind(fs)
		BindHelp(fs)
	}))
	return cmd
}

// BindNamed calls bind to add flags to fs, and returns the names of these flags in order.
func BindNamed(fs *pflag.FlagSet, bind func(*pflag.FlagSet)) []string {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	bind(own)
	fs.AddFlagSet(own)
	var names []string
	own.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// BindHelp adds the flag --help.
func BindHelp(fs *pflag.FlagSet) { fs.BoolP("help", "h", false, "print this help") }

// Changed reports whether the command line or the config file sets a flag.
func (f *Flags) Changed(name string) bool { return f.Set.Changed(name) }

// Refuse returns an error for an invalid value of a flag. want completes "must be".
func (f *Flags) Refuse(name, want string) error { return f.RefuseRule(name, "must be "+want) }

// RefuseRule returns an error for an invalid value of a flag. rule is the complete requirement.
func (f *Flags) RefuseRule(name, rule string) error {
	return f.refuseValue(name, f.Set.Lookup(name).Value.String(), rule)
}

// refuseValue is RefuseRule with the value to print.
func (f *Flags) refuseValue(name, value, rule string) error {
	if place, ok := f.Places[name]; ok {
		return Usagef("%s: %s: %s: %s", place, name, value, rule)
	}
	return Usagef("--%s=%s: %s", f.Name(name), value, rule)
}

// RefuseMember returns an error for a member of the JSON object in a flag.
func (f *Flags) RefuseMember(name string, err error) error {
	if place, ok := f.Places[name]; ok {
		return Usagef("%s: %s: %v", place, name, err)
	}
	return Usagef("--%s: %v", f.Name(name), err)
}

// Only returns an error for a flag that is not supported with the other flags. where is a condition such as "with
// --slo" or "without --compat".
func (f *Flags) Only(name, where string) error {
	rule := "requires " + strings.TrimPrefix(where, "with ")
	if refused, ok := strings.CutPrefix(where, "without "); ok {
		rule = "is not supported with " + refused
	}
	if place, ok := f.Places[name]; ok {
		return Usagef("%s: %s %s", place, name, rule)
	}
	return Usagef("--%s %s", f.Name(name), rule)
}

// Name returns the name with which a flag was given.
func (f *Flags) Name(flag string) string {
	if name, ok := f.Spelled[flag]; ok {
		return name
	}
	return flag
}

// FirstChanged returns the first of the names that was given, or "".
func (f *Flags) FirstChanged(names ...string) string {
	for _, name := range names {
		if f.Changed(name) {
			return name
		}
	}
	return ""
}

// CheckLeast returns an error for the first given flag with a value that is not a number, less than least or
// infinite.
func (f *Flags) CheckLeast(least float64, names ...string) error {
	for _, name := range names {
		v, err := strconv.ParseFloat(f.Set.Lookup(name).Value.String(), 64)
		if f.Changed(name) && (err != nil || !(v >= least) || math.IsInf(v, 0)) {
			return f.Refuse(name, "at least "+strconv.FormatFloat(least, 'f', -1, 64))
		}
	}
	return nil
}

// flagError converts a parse error of the flag library to an error in the format of the project.
func (f *Flags) flagError(err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown):
		if long := unknown.GetSpecifiedShortnames(); f.Set.Lookup(long) != nil {
			return Usagef("-%s: unknown flag, must be --%s", long, long)
		}
		if advice := adviceFor(unknown.GetSpecifiedName()); advice != "" {
			return Usagef("--%s %s", unknown.GetSpecifiedName(), advice)
		}
		if out := f.Set.Lookup("out"); unknown.GetSpecifiedName() == "html" && out != nil && strings.Contains(out.Usage, "`DIR`") {
			return Usagef("--html: no such flag, use --out DIR, then replay report DIR --html FILE")
		}
		dashes := strings.Repeat("-", min(2, len(unknown.GetSpecifiedName())))
		if near := nearest.Name(unknown.GetSpecifiedName(), FlagNames(f.Set)); near != "" && len(dashes) == 2 {
			return Usagef("--%s: no such flag, did you mean --%s?", unknown.GetSpecifiedName(), near)
		}
		return Usagef("%s%s: no such flag", dashes, unknown.GetSpecifiedName())
	case errors.As(err, &missing):
		return Usagef("--%s: requires a value", missing.GetSpecifiedName())
	case errors.As(err, &invalid):
		return Usagef("--%s=%s: must be %s", f.Name(invalid.GetFlag().Name), invalid.GetValue(), WantedKind(invalid.GetFlag().Value.Type(), err))
	}
	return WrongUsage(err)
}

// FlagNames returns the names of all flags in a set.
func FlagNames(fs *pflag.FlagSet) []string {
	var names []string
	fs.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}

// Rule is a requirement for flags.
type Rule struct {
	holds bool
	where string   // condition under which the flags are supported
	want  string   // valid values; set for rules of Wants
	flags []string // a single flag if want is set
}

// Needs returns a rule: the flags are only supported if holds is true. where is the condition for the error, as in
// Flags.Only.
func Needs(holds bool, where string, names ...string) Rule {
	return Rule{holds: holds, where: where, flags: names}
}

// Wants returns a rule: the value of a flag is only valid if holds is true.
func Wants(holds bool, name, want string) Rule {
	return Rule{holds: holds, want: want, flags: []string{name}}
}

// Check returns the error of the first rule that is violated.
func (f *Flags) Check(rules ...Rule) error {
	for _, r := range rules {
		if r.holds {
			continue
		}
		if r.want != "" {
			return f.Refuse(r.flags[0], r.want)
		}
		if name := f.FirstChanged(r.flags...); name != "" {
			return f.Only(name, r.where)
		}
	}
	return nil
}

// WantedKind describes valid values of a flag of the given type.
func WantedKind(kind string, err error) string {
	switch kind {
	case "int":
		return "an integer"
	case "uint64":
		return "an integer from 0 to 18446744073709551615"
	case "float64":
		return "a number"
	case "bool":
		return "true or false"
	}
	_, want, _ := strings.Cut(err.Error(), "must be ")
	return want
}

// Alias adds alternative names, which other programs use, to flags of a command. The help lists the alternative
// names.
func Alias(cmd *cobra.Command, names map[string]string) *cobra.Command {
	fs := cmd.Flags()
	for _, other := range slices.Sorted(maps.Keys(names)) {
		fs.Lookup(names[other]).Usage += "; also --" + other
	}
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if own, ok := names[name]; ok {
			name = own
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}
