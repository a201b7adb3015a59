package options

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
)

// shared has the state that all groups of flags use.
type shared struct {
	cli.Flags
	// Reference is true for command lines of the reference. Flags of the reference without effect are then permitted.
	// Values out of range are then input errors and not usage errors.
	Reference bool
	compat    string
	mode      cli.Choice // mode of the clock
}

// Options has all flags of a replay command in groups. Each group sets fields of a replay.Spec. Functions for several
// groups are in this file.
type Options struct {
	shared
	Seed      uint64
	Config    config
	input     input
	streaming streaming
	Cluster   cluster
	client    client
	Engine    engine
	// EngineDefaults are default engine arguments.
	EngineDefaults []engineargs.Setting
	Router         routing
	Output         output
	Limits         limits
	Outputs        Outputs
	Live           live
	Processes      processes
	others         map[string]string   // names of flags by their names in other tools
	Threads        int                 // number of threads of the simulation; 0: all cores
	settings       []plan.Setting      // cache of Settings
	workload       *replay.Spec        // the workload of the replay; nil: unknown
	measured       *calibrate.Measured // the measured run to replay; nil: none
}

// Bind adds all flags to cmd.
func (o *Options) Bind(cmd *cobra.Command) {
	o.acceptNames(cmd)
	o.Flags.Bind(cmd, o.groups()...)
	if o.Reference {
		o.Cluster.count.plain = true
		cli.HideAll(o.Set)
		cmd.SetUsageFunc(nil)
	}
}

// groups returns all groups of flags.
func (o *Options) groups() []cli.Group {
	all := o.replayGroups()
	last := len(all) - 1
	return append(all[:last:last],
		cli.NewGroup("Streaming of traces", o.streaming.bindFlags).Rare(),
		cli.NewGroup("Cores", func(fs *pflag.FlagSet) {
			fs.IntVar(&o.Threads, "threads", 0, "`number` of cores that the simulation may use; 0: all. The report does not depend on it")
		}).Rare(),
		cli.NewGroup("Objectives", o.Outputs.bindObjectives),
		cli.NewGroup("Output (report, requests and records of the run)", func(fs *pflag.FlagSet) {
			o.Output.bindFlags(fs)
			o.Outputs.bindFlags(fs)
		}, "output", "wide", "out", "timeline"),
		cli.NewGroup("Real time (with --mode online; the last two also with --mode cluster)", o.Live.bindFlags).Rare().ListedBy(listsSettings),
		cli.NewGroup("Worker processes (with --mode cluster, which also accepts the cluster flags of replay worker)", o.Processes.bindFlags).Rare().ListedBy(listsSettings),
		all[last])
}

// BindReplay adds the flags that define a replay. BindReplay adds no flags for outputs.
func (o *Options) BindReplay(cmd *cobra.Command, own ...cli.Group) {
	o.acceptNames(cmd)
	o.Flags.Bind(cmd, append(own, o.replayGroups()...)...)
}

// enginesTitle is the heading of the flags for engines and hardware in the help.
const enginesTitle = "Hardware and engines"

// listsSettings is the command that lists the flags that --help-all omits.
const listsSettings = "replay settings"

// ListedFlags has the flags of a help section of which --help-all omits most flags.
type ListedFlags struct {
	Title   string
	Engines bool // the flags are for engines and hardware, with rows in EngineRows
	Flags   *pflag.FlagSet
}

// Names returns the names of all flags that are not hidden, without dashes.
func (l *ListedFlags) Names() (names []string) {
	l.Flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// ListFlags returns the flags that replay settings lists.
func ListFlags() (all []ListedFlags) {
	o := new(Options)
	for _, g := range o.groups() {
		if !g.IsListed() {
			continue
		}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.SortFlags = false
		g.Bind(fs)
		all = append(all, ListedFlags{g.Title(), strings.HasPrefix(g.Title(), enginesTitle), fs})
	}
	return all
}

// replayGroups returns the groups of flags that define a replay.
func (o *Options) replayGroups() []cli.Group {
	o.input.shared, o.Cluster.shared, o.client.shared, o.Limits.shared, o.streaming.shared = &o.shared, &o.shared, &o.shared, &o.shared, &o.shared
	return []cli.Group{
		cli.NewGroup("Workload", o.input.bindFlags, "trace-format", "speedup", "max-in-flight", "input-tokens", "output-tokens", "request-count"),
		cli.NewGroup(leftOpenTitle, o.input.bindOpen).Rare().ListedBy(listsSettings),
		cli.NewGroup("Cluster", o.Cluster.bindFlags, "workers", "prefill-workers", "decode-workers", "router"),
		cli.NewGroup(enginesTitle+" (these override --engine-args; most accept the prefix prefill- or decode-, as --decode-num-gpu-blocks)", func(fs *pflag.FlagSet) {
			o.Engine.bindFlags(fs)
			o.Config.bindDeployment(fs)
		}, "gpu", "model", "tp", "engine", "num-gpu-blocks", "deployment").ListedBy(listsSettings,
			"dp", "quantization", "max-model-len", "block-size", "max-num-seqs", "max-num-batched-tokens", "scheduler-profile", "timing-profile"),
		cli.NewGroup("KV router (these override --router-config)", o.Router.Bind).Rare().ListedBy(listsSettings),
		cli.NewGroup("Clients", o.client.bindFlags).Rare(),
		cli.NewGroup("Run", o.bindRun).Rare(),
	}
}

func (o *Options) bindRun(fs *pflag.FlagSet) {
	fs.StringVar(&o.compat, "compat", "", "repeat the results of this `release` of dynamo.replay to the last digit: "+CompatRelease)
	fs.Uint64Var(&o.Seed, "seed", DefaultSeed, "seed of all random draws, a `number`")
	o.Limits.bindFlags(fs)
	o.Config.bindFlags(fs)
	bindReferenceOnly(fs)
	cli.BindHelp(fs)
}

// DefaultSeed is the default seed of random draws.
const DefaultSeed = 42

// CompatRelease is the only release of the reference that --compat supports.
const CompatRelease = "dynamo-1.2"
