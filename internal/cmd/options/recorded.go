package options

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/plan"
)

// RecordedSettings returns the settings of a recorded command line of replay trace or replay concurrency, including
// the trace and the flags in its files. RecordedSettings omits output flags. RecordedSettings returns an error for
// settings that cells do not support.
func RecordedSettings(args []string) ([]plan.Setting, error) {
	if len(args) == 0 || args[0] != "trace" && args[0] != "concurrency" {
		return nil, cli.Usagef("its command is %q, must be a run of replay trace or replay concurrency", strings.Join(append([]string{"replay"}, args...), " "))
	}
	o, cmd := &Options{}, &cobra.Command{Use: args[0]}
	o.Bind(cmd)
	if err := cmd.ParseFlags(args[1:]); err != nil {
		return nil, err
	}
	file, err := TraceFile(cmd.Flags().Args())
	switch {
	case err != nil:
		return nil, err
	case file == "":
		return nil, cli.Usagef("it replays no trace in a file, expected one")
	}
	if err := o.Config.Apply(o); err != nil {
		return nil, err
	}
	all := append([]plan.Setting{{Name: TraceSetting, Value: file}}, o.Settings()...)
	known, left := NewCellOptions().Set, leavesFlags()
	o.Set.Visit(func(f *pflag.Flag) {
		isSet := slices.ContainsFunc(all, func(s plan.Setting) bool { return s.Name == f.Name })
		if err == nil && !isSet && !slices.Contains(left, f.Name) && f.Value.String() != f.DefValue {
			err = Settable(known, f.Name)
			err = cli.Usagef("--%s: %s: nothing that a page can replay (%v)", f.Name, f.Value, err)
		}
	})
	return all, err
}

// leavesFlags returns the names of flags that only affect the outputs of a run.
func leavesFlags() []string {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	names := cli.BindNamed(fs, func(fs *pflag.FlagSet) {
		new(output).bindFlags(fs)
		new(Outputs).bindFlags(fs)
	})
	return append(names, "slo-exit", "config", deploymentSetting)
}
