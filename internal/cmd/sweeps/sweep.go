package sweeps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/timing"
)

// NewSweepCommand returns the command that replays every cell of a grid.
func NewSweepCommand(s cli.Streams) *cobra.Command {
	f := &sweepFlags{}
	cmd := &cobra.Command{
		Use:   "sweep [GRID]",
		Short: "Replay a grid of settings",
		Long: `Replay every cell of a grid: all combinations of the values of some flags. GRID
is a YAML or JSON file,

  trace: requests.jsonl            a file, or a list of them
  set: {block-size: 512}           flags of all cells
  grid:                            flags, values; the last one changes fastest
    router: [round_robin, kv]
    workers: [2, 4, 8]

The flags below can set the grid instead. Cells with max-in-flight run in closed
loop.

The cells run in this process, --jobs in parallel, or as shards on several
machines.`,
		Example: `  replay sweep grid.yaml --output csv > table.csv
  replay sweep grid.yaml --journal done.jsonl
  replay sweep grid.yaml --repeat 20
  replay sweep --trace monday.jsonl --trace friday.jsonl --grid workers=1,2,4
  replay sweep grid.yaml --shard 1/8 --out part-1.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.CheckSpelling(cmd, args); err != nil {
				return err
			}
			g, err := f.grid.Of(args)
			if err != nil {
				return err
			}
			if f.jobs < 1 {
				return cli.Usagef("--jobs=%d: must be at least 1", f.jobs)
			}
			if err := f.checkShard(cmd.Flags()); err != nil {
				return err
			}
			return f.sweepHere(cmd.Context(), s, g)
		},
	}
	cli.BindGroups(cmd, cli.NewGroup("Grid", f.grid.Bind, "trace", "deployment", "grid", "set", "repeat"), cli.NewGroup("Table", f.table.Bind, "output", "out", "gpu-cost"), cli.NewGroup("Run", func(fs *pflag.FlagSet) {
		fs.IntVar(&f.jobs, "jobs", runtime.NumCPU(), "`number` of cells that run in parallel; the table does not depend on it")
		fs.StringVar(&f.journal, "journal", "", "record finished cells in `FILE`, and reuse the cells recorded there")
		fs.BoolVar(&f.early, "early-stop", false, "end a cell as early as an objective of --set slo=... can no longer be met")
		fs.Var(&f.shard, "shard", "run only shard `i/n` of the cells, as 1/8, and write it to the file of --out")
	}, "journal", "early-stop", "shard"))
	options.OfferSettings(cmd, nil, "grid", "set")
	cmd.AddCommand(newMergeCommand(s))
	return cmd
}

// Of returns the grid of a command line.
func (f *GridFlags) Of(args []string) (*plan.Grid, error) {
	if len(args) > 1 {
		return nil, cli.Usagef("%s: must be at most one grid", strings.Join(args, " "))
	}
	g, err := f.readGrid(strings.Join(args, ""))
	switch {
	case err != nil:
		return nil, err
	case f.repeat < 0 || f.repeat == 1 || f.repeat > mostRepeats:
		return nil, cli.Usagef("--repeat=%d: must be 2 to %d, or 0", f.repeat, mostRepeats)
	case g.Size() > mostReplays/(f.repeat+1):
		return nil, cli.Usagef("--repeat=%d: %d cells are more than %d replays, must be fewer", f.repeat, g.Size(), mostReplays)
	}
	return g, nil
}

// CellsOf returns the cells of a grid, followed by the cells on resamples of their workloads.
func (f *GridFlags) CellsOf(g *plan.Grid) []plan.Cell { return plan.RepeatCells(g.Cells(), f.repeat) }

// sweepFlags are the flags of a sweep in this process.
type sweepFlags struct {
	grid    GridFlags
	table   TableFlags
	jobs    int
	journal string
	early   bool
	shard   shardValue
}

// sweepHere replays the cells of g and prints the results.
func (f *sweepFlags) sweepHere(ctx context.Context, s cli.Streams, g *plan.Grid) (err error) {
	cli.ManyReplays()
	cells := f.grid.CellsOf(g)
	tasks, err := f.tasksOf(cells, NewDigests())
	if err != nil {
		return err
	}
	if f.early {
		if err := f.markEarly(g, tasks); err != nil {
			return err
		}
	}
	sweep := plan.Sweep{Cells: cells, Cores: f.jobs}
	for i := range tasks {
		sweep.Keys = append(sweep.Keys, tasks[i].Key())
	}
	if err := f.openJournal(&sweep, g); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sweep.Journal.Close()) }()
	var traces warnings
	runner := CellRunner{Warn: traces.add, EarlyStop: f.early, Reader: *options.NewCellReader()}
	sweep.Run = func(ctx context.Context, c *plan.Cell) (json.RawMessage, error) { return runner.Run(ctx, c) }
	notes := readNotes(&runner.Reader, cells[:g.Size()])
	printWarnings(s, notes)
	cells = sweep.Cells
	bar := cli.NewProgress(s.Err, "cells")
	sweep.Progress = func(done int) { bar.Show(done, len(cells)) }
	outcomes, _, err := sweep.Do(ctx)
	bar.Clear()
	traces.print(s)
	if err != nil || f.shard.Of > 0 {
		return err
	}
	return f.table.Write(s, g, outcomes, notes)
}

// openJournal opens the journal of a sweep, if any. With --shard, the journal is the output file, and the sweep is
// reduced to the cells of the shard.
func (f *sweepFlags) openJournal(sweep *plan.Sweep, g *plan.Grid) (err error) {
	if f.shard.Of > 0 {
		program, err := ProgramVersion()
		if err != nil {
			return err
		}
		part := plan.NewPart(f.shard.Shard, program, g, sweep.Keys)
		sweep.Cells, sweep.Keys = f.shard.Take(sweep.Cells, sweep.Keys)
		if sweep.Journal, err = plan.OpenPart(f.table.Files.paths[0], part); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		return nil
	}
	if f.journal == "" {
		return nil
	}
	if sweep.Journal, err = plan.OpenJournal(f.journal); err != nil {
		return fmt.Errorf("--journal: %w", err)
	}
	return nil
}

// markEarly changes the version of the tasks, so that journals distinguish cells with early stop from complete cells.
// markEarly returns an error for a sweep without objectives, and for a sweep with --repeat.
func (f *sweepFlags) markEarly(g *plan.Grid, tasks []plan.Task) error {
	if f.grid.repeat > 0 {
		return cli.Usagef("--early-stop with --repeat: a cell that is stopped has no values to repeat; leave one of them out")
	}
	if !slices.ContainsFunc(g.Cells(), func(c plan.Cell) bool { return c.Of("slo") != "" }) {
		return cli.Usagef("--early-stop: no cell has an objective; add --set slo=p99:ttft=1s or an axis of them, --grid slo=...")
	}
	for i := range tasks {
		tasks[i].Version += " early-stop"
	}
	return nil
}

const (
	mostRepeats = 10_000 // maximum number of resamples of a cell
	mostReplays = 10_000_000
)

// tasksOf returns the tasks of cells, in the order of cells. The tasks have the version of the program if results are
// kept for another sweep.
func (f *sweepFlags) tasksOf(cells []plan.Cell, d *digests) (tasks []plan.Task, err error) {
	program := ""
	if f.journal != "" || f.shard.Of > 0 {
		if program, err = ProgramVersion(); err != nil {
			return nil, err
		}
	}
	tasks = make([]plan.Task, len(cells))
	for i := range cells {
		cell := cells[i]
		if whole, err := options.ExpandDeployment(cell.Settings); err == nil { // otherwise the run of the cell reports the error
			cell.Settings = whole
		}
		if tasks[i], err = plan.NewTask(&cell, program, d.Of); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}

// ProgramVersion identifies the program, because another version may give other results. ProgramVersion includes a
// hash of the program file if the program was not built from a clean commit.
func ProgramVersion() (string, error) { return memo() }

// memo computes ProgramVersion once.
var memo = sync.OnceValues(func() (string, error) {
	v := cli.Version()
	if !strings.Contains(v, "+dirty") && !strings.HasPrefix(v, "(") {
		return v, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	sum, err := plan.HashFile(path)
	return v + " " + sum[:min(12, len(sum))], err
})

// digests computes and caches the hashes of files.
type digests struct {
	mutex sync.Mutex
	sums  map[string]string // hash by path
	// profiles are the settings that may name a file of pass times.
	profiles []string
}

// NewDigests returns an empty cache.
func NewDigests() *digests {
	d := &digests{sums: map[string]string{}}
	for _, e := range options.EngineFlags() {
		if e.Sets == engineargs.PassTimesKey {
			d.profiles = append(d.profiles, e.Flag, "prefill-"+e.Flag, "decode-"+e.Flag)
		}
	}
	return d
}

// Of returns the hash of the file that a setting names, or "" if it names no file.
func (d *digests) Of(s plan.Setting) (string, error) {
	path := d.fileOf(s)
	if path == "" {
		return "", nil
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if sum, ok := d.sums[path]; ok {
		return sum, nil
	}
	sum, err := plan.HashFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	d.sums[path] = sum
	return sum, nil
}

// fileOf returns the path of the file that a setting names, or "". fileOf ignores the name of a worker kind and a dot
// before the name of the setting.
func (d *digests) fileOf(s plan.Setting) string {
	s.Name = s.Name[strings.LastIndex(s.Name, ".")+1:]
	if path, ok := strings.CutPrefix(s.Value, "@"); ok {
		return path
	}
	if s.Name == "faults" && options.IsFaultList(s.Value) || s.Name == "autoscale" && options.IsAutoscaler(s.Value) {
		return ""
	}
	switch s.Name {
	case options.TraceSetting, "deployment", "tokenizer", "generate-lengths-from", "gpu-file", "router-policy", "endpoint-picker", "admission", "scale", "faults", "autoscale", "warm-caches":
		return s.Value
	case "router":
		if options.IsPolicyFile(s.Value) {
			return s.Value
		}
	case "model":
		return configOf(s.Value)
	}
	if slices.Contains(d.profiles, s.Name) && timing.ParseSource(s.Value).Form() == timing.File {
		return s.Value
	}
	return ""
}

// configOf returns the path of a model's configuration file. configOf returns "" if the model is a name in the
// operator tables.
func configOf(model string) string {
	if stat, err := os.Stat(model); err == nil && stat.IsDir() {
		model = filepath.Join(model, "config.json")
	}
	if stat, err := os.Stat(model); err != nil || !stat.Mode().IsRegular() {
		return ""
	}
	return model
}
