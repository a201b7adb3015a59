package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/plan"
)

// newSweepCommand replays every cell of a grid.
func newSweepCommand(s streams) *cobra.Command {
	var (
		grid    gridFlags
		table   tableFlags
		jobs    int
		journal string
	)
	cmd := &cobra.Command{
		Use:   "sweep [GRID]",
		Short: "Replay a grid of settings",
		Long: `Replay every cell of a grid: all combinations of the values of some flags. GRID is
a YAML or JSON file,

  trace: requests.jsonl            a file, or a list of them
  set: {block-size: 512}           flags of all cells
  grid:                            flags and their values; the last runs fastest
    router: [round_robin, kv]
    workers: [2, 4, 8]

or the flags below say it. Cells with max-in-flight are closed loops.

The cells run in this process, --jobs at once. The subcommands spread them over
processes and machines.`,
		Example: `  replay sweep grid.yaml --output csv > table.csv
  replay sweep grid.yaml --journal done.jsonl
  replay sweep --trace requests.jsonl --grid workers=1,2,4,8 --grid router=round_robin,kv`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			g, err := grid.of(args)
			if err != nil {
				return err
			}
			if jobs < 1 {
				return usagef("--jobs=%d: want at least 1", jobs)
			}
			return sweepHere(cmd.Context(), s, localSweep{grid: g, jobs: jobs, journal: journal, table: table})
		},
	}
	bindGroups(cmd, group{"Grid", grid.bind}, group{"Table", table.bind}, group{"Run", func(fs *pflag.FlagSet) {
		fs.IntVar(&jobs, "jobs", runtime.NumCPU(), "cells at once, a `number`; the table does not depend on it")
		fs.StringVar(&journal, "journal", "", "note finished cells in `FILE`, and take those that are there")
	}})
	cmd.AddCommand(queueCommands(s)...)
	return cmd
}

// bindGroups adds flags to a command that is no replay.
func bindGroups(cmd *cobra.Command, groups ...group) {
	fs := cmd.Flags()
	fs.SortFlags = false
	groups = append(groups, group{"Help", func(fs *pflag.FlagSet) { fs.BoolP("help", "h", false, "print this help") }})
	setUsage(cmd, sections(fs, groups))
	o := &options{fs: fs, spelled: map[string]string{}}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return o.flagError(err) })
}

// of is the grid of a command line.
func (f *gridFlags) of(args []string) (*plan.Grid, error) {
	if len(args) > 1 {
		return nil, usagef("%s: want at most one grid", strings.Join(args, " "))
	}
	return f.grid(strings.Join(args, ""))
}

// localSweep is a sweep in this process.
type localSweep struct {
	grid    *plan.Grid
	jobs    int
	journal string
	table   tableFlags
}

func sweepHere(ctx context.Context, s streams, l localSweep) (err error) {
	if err := l.table.files.check(); err != nil {
		return err
	}
	manyReplays()
	tasks, err := tasksOf(l.grid, newDigests())
	if err != nil {
		return err
	}
	sweep := plan.Sweep{Cells: l.grid.Cells(), Cores: l.jobs}
	for i := range tasks {
		sweep.Keys = append(sweep.Keys, tasks[i].Key())
	}
	if l.journal != "" {
		if sweep.Journal, err = plan.OpenJournal(l.journal); err != nil {
			return fmt.Errorf("--journal: %w", err)
		}
		defer func() { err = errors.Join(err, sweep.Journal.Close()) }()
	}
	var runner cellRunner
	sweep.Run = func(ctx context.Context, c *plan.Cell) (json.RawMessage, error) { return runner.run(ctx, c.Settings) }
	bar := newCountdownTo(s.err, "cells", len(sweep.Cells))
	sweep.Progress = bar.count
	outcomes, _, err := sweep.Do(ctx)
	bar.clear()
	if err != nil {
		return err
	}
	return l.table.write(s.out, l.grid, outcomes)
}

// tasksOf are the tasks of a grid, in its order.
func tasksOf(g *plan.Grid, d *digests) ([]plan.Task, error) {
	program, err := programVersion()
	if err != nil {
		return nil, err
	}
	cells := g.Cells()
	tasks := make([]plan.Task, len(cells))
	for i := range cells {
		if tasks[i], err = plan.NewTask(&cells[i], program, d.of); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}

// programVersion tells programs apart that may give other results. What was not
// built from a commit is told by its own bytes.
func programVersion() (string, error) {
	v := version()
	if !strings.Contains(v, "+dirty") && !strings.HasPrefix(v, "(") {
		return v, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	sum, err := hashOf(path)
	return v + " " + sum[:min(12, len(sum))], err
}

// digests hash files, each once.
type digests struct {
	mutex sync.Mutex
	sums  map[string]string // by path
}

func newDigests() *digests { return &digests{sums: map[string]string{}} }

// of is the digest of the file that a setting names, "" when it names none.
func (d *digests) of(s plan.Setting) (string, error) {
	path := fileOf(s)
	if path == "" {
		return "", nil
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if sum, ok := d.sums[path]; ok {
		return sum, nil
	}
	sum, err := hashOf(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	d.sums[path] = sum
	return sum, nil
}

// fileOf is the file that a setting names, or "": a trace, a tokenizer, a
// profile, or JSON that begins with @.
func fileOf(s plan.Setting) string {
	if path, ok := strings.CutPrefix(s.Value, "@"); ok {
		return path
	}
	if s.Name == traceSetting || s.Name == "tokenizer" || s.Name == "generate-lengths-from" {
		return s.Value
	}
	for _, e := range engineSettings() {
		if e.key == "planner_profile_data" && (s.Name == e.name || s.Name == "prefill-"+e.name || s.Name == "decode-"+e.name) {
			return s.Value
		}
	}
	return ""
}

// hashOf is the SHA-256 of a file, in hexadecimal.
func hashOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
