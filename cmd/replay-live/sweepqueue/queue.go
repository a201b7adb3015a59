package sweepqueue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/sweeps"
	"github.com/replay-llm/replay/cmd/replay-live/cluster"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/queue"
	"github.com/replay-llm/replay/plan"
)

// serverFlags say where the server of sweeps is.
type serverFlags struct {
	url   string
	lease time.Duration
}

func (f *serverFlags) bindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&f.url, "nats", os.Getenv("NATS_SERVER"), "`URL` of a NATS server with JetStream")
	fs.Lookup("nats").DefValue = "$NATS_SERVER"
	fs.DurationVar(&f.lease, "lease", queue.Lease, "`time` a worker may be silent before its cell goes to another")
}

func (f *serverFlags) openQueue(ctx context.Context) (*queue.Queue, error) {
	if f.url == "" {
		return nil, cli.Usagef("--nats: missing, want the URL of the server, as nats://host:4222")
	}
	if f.url != os.Getenv("NATS_SERVER") {
		if err := cluster.CheckURLs("nats", f.url); err != nil {
			return nil, err
		}
	}
	if f.lease < 100*time.Millisecond {
		return nil, cli.Usagef("--lease=%v: want at least 100ms", f.lease)
	}
	return queue.Open(ctx, f.url, f.lease)
}

// workFlags say how cells are run.
type workFlags struct {
	jobs      int
	timeout   time.Duration
	memoryMB  int
	cache     string
	cacheSize int
}

func (f *workFlags) bindFlags(fs *pflag.FlagSet) {
	fs.IntVar(&f.jobs, "jobs", runtime.NumCPU(), "cells at once, a `number`; each in a process of its own")
	fs.DurationVar(&f.timeout, "timeout", 10*time.Minute, "`time` a cell may take")
	fs.IntVar(&f.memoryMB, "memory-limit-mb", 4096, "memory a cell may take, in `MB`")
	fs.StringVar(&f.cache, "cache", "", "`DIR` for traces from the server")
	fs.Lookup("cache").DefValue = "replay-sweep in the user's cache directory"
	fs.IntVar(&f.cacheSize, "cache-size-mb", 10_000, "size of the cache, in `MB`")
}

// makeWorker is a worker for q as the flags say.
func (f *workFlags) makeWorker(s cli.Streams, q *queue.Queue) (*queue.Worker, error) {
	if f.jobs < 1 || f.timeout <= 0 || f.memoryMB < 32 || f.cacheSize < 1 {
		return nil, cli.Usagef("--jobs=%d --timeout=%v --memory-limit-mb=%d --cache-size-mb=%d: want at least 1, above 0, 32 and 1",
			f.jobs, f.timeout, f.memoryMB, f.cacheSize)
	}
	program, err := sweeps.ProgramVersion()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir := f.cache
	if dir == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("--cache: missing, and %w", err)
		}
		dir = filepath.Join(home, "replay-sweep")
	}
	cache, err := queue.NewCache(dir, int64(f.cacheSize)*1e6)
	if err != nil {
		return nil, fmt.Errorf("--cache: %w", err)
	}
	var lines sync.Mutex
	return &queue.Worker{
		Queue: q, Version: program, Slots: f.jobs, Cache: cache,
		Program: queue.Program{Args: []string{self, "sweep", "cell", "--memory-limit-mb", strconv.Itoa(f.memoryMB)}, Timeout: f.timeout},
		Notify: func(text string) {
			lines.Lock()
			defer lines.Unlock()
			fmt.Fprintln(s.Err, cli.FormatNote(text))
		},
	}, nil
}

// New makes the commands of a sweep over several processes.
func New(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{
		newSweepRunCommand(s), newSweepSubmitCommand(s), newSweepWorkCommand(s),
		newSweepStatusCommand(s), newSweepCollectCommand(s), newSweepCellCommand(s),
	}
}

// newSweepRunCommand runs a grid through a queue of its own.
func newSweepRunCommand(s cli.Streams) *cobra.Command {
	var (
		grid   sweeps.GridFlags
		table  sweeps.TableFlags
		server serverFlags
		work   workFlags
		data   string
		listen string
	)
	cmd := &cobra.Command{
		Use:   "run [GRID]",
		Short: "Run a grid on a queue, each cell in a process of its own",
		Long: `Submit a grid, work on it and collect the table: with --nats on that server,
otherwise on one inside this process. With --listen others can help: replay
sweep work --nats URL. With --data, an interrupted run goes on where it was.`,
		Example: `  replay sweep run grid.yaml --data sweeps --out table.csv
  replay sweep run grid.yaml --listen 0.0.0.0:4222 --repeat 20`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			g, err := grid.Of(args)
			if err != nil {
				return err
			}
			if server.url != "" && (data != "" || listen != "") {
				return cli.Usagef("--nats: only without --data and --listen, which are about a server in this process")
			}
			if server.url == "" {
				b, err := startBroker(cmd.Context(), data, listen)
				if err != nil {
					return err
				}
				defer b.Stop()
				server.url = b.URL()
				if listen != "" {
					fmt.Fprintf(s.Err, "replay: others can help: replay sweep work --nats %s\n", b.URL())
				}
			}
			q, err := server.openQueue(cmd.Context())
			if err != nil {
				return err
			}
			defer q.Close()
			return runQueued(cmd.Context(), s, q, queuedSweep{grid: g, cells: grid.CellsOf(g), table: table, work: work})
		},
	}
	cli.BindGroups(cmd, cli.NewGroup("Grid", grid.Bind), cli.NewGroup("Table", table.Bind), cli.NewGroup("Server", func(fs *pflag.FlagSet) {
		server.bindFlags(fs)
		fs.Lookup("nats").DefValue = "one in this process"
		fs.StringVar(&data, "data", "", "keep queue and results of the server in this process in `DIR`")
		fs.StringVar(&listen, "listen", "", "let the server in this process listen on `HOST:PORT`")
	}), cli.NewGroup("Work", work.bindFlags))
	return cmd
}

func startBroker(ctx context.Context, data, listen string) (*stack.NATS, error) {
	o := stack.NATSOptions{Dir: data}
	if listen != "" {
		host, port, err := net.SplitHostPort(listen)
		if err == nil {
			o.Host = host
			o.Port, err = strconv.Atoi(port)
		}
		if err != nil {
			return nil, cli.Usagef("--listen=%s: want HOST:PORT", listen)
		}
	}
	return stack.StartNATS(ctx, o)
}

// queuedSweep is a sweep that is submitted, worked on and collected at once.
type queuedSweep struct {
	grid  *plan.Grid
	cells []plan.Cell // of the grid, and their resamples
	table sweeps.TableFlags
	work  workFlags
}

func runQueued(ctx context.Context, s cli.Streams, q *queue.Queue, r queuedSweep) error {
	if err := r.table.Check(); err != nil {
		return err
	}
	worker, err := r.work.makeWorker(s, q)
	if err != nil {
		return err
	}
	sweeps.PrintWarnings(s, r.grid.Cells())
	m, _, err := submitGrid(ctx, q, r.grid, r.cells)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(working) }()
	bar := cli.NewProgress(s.Err, "cells")
	err = q.Wait(ctx, m, func(left int) { bar.Show(len(m.Keys)-left, len(m.Keys)) })
	bar.Clear()
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	return collectTable(ctx, s, q, m, &r.table)
}

// submitGrid hands in a grid, whose cells come first among those to be run.
func submitGrid(ctx context.Context, q *queue.Queue, g *plan.Grid, cells []plan.Cell) (*queue.Manifest, *queue.Submitted, error) {
	d := sweeps.NewDigests()
	tasks, err := sweeps.TasksOf(cells, d)
	if err != nil {
		return nil, nil, err
	}
	for i := range tasks {
		if slices.ContainsFunc(tasks[i].Settings, func(s plan.Setting) bool { return strings.Contains(s.Name, ".") }) {
			return nil, nil, cli.Usagef("deployment: a mix of deployments in workers is for sweeps of one process, want GPUs by name, or replay sweep alone")
		}
	}
	submitted, err := q.Submit(ctx, g, tasks, d.Path)
	if err != nil {
		return nil, nil, err
	}
	m, err := q.Manifest(ctx, submitted.ID)
	return m, submitted, err
}

func collectTable(ctx context.Context, s cli.Streams, q *queue.Queue, m *queue.Manifest, table *sweeps.TableFlags) error {
	outcomes, err := q.Outcomes(ctx, m)
	if err != nil {
		return err
	}
	return table.Write(s.Out, &m.Grid, outcomes)
}

// newSweepSubmitCommand hands in a grid.
func newSweepSubmitCommand(s cli.Streams) *cobra.Command {
	var (
		grid   sweeps.GridFlags
		server serverFlags
		form   cli.Choice
	)
	cmd := &cobra.Command{
		Use:     "submit [GRID]",
		Short:   "Put a grid on a queue",
		Long:    "Put the cells of a grid that have no result yet on a queue, and print the id of\nthe sweep.",
		Example: "  replay sweep submit grid.yaml --nats nats://host:4222",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			g, err := grid.Of(args)
			if err != nil {
				return err
			}
			q, err := server.openQueue(cmd.Context())
			if err != nil {
				return err
			}
			defer q.Close()
			sweeps.PrintWarnings(s, g.Cells())
			_, done, err := submitGrid(cmd.Context(), q, g, grid.CellsOf(g))
			if err != nil {
				return err
			}
			if form.Value == "json" {
				return cli.WriteJSON(s.Out, map[string]any{"sweep_id": done.ID, "cells": done.Cells, "known": done.Known, "queued": done.Queued})
			}
			fmt.Fprintf(s.Err, "replay: %d cells, %d of them with a result, %d queued\n", done.Cells, done.Known, done.Queued)
			_, err = fmt.Fprintln(s.Out, done.ID)
			return err
		},
	}
	cli.BindGroups(cmd, cli.NewGroup("Grid", grid.Bind), cli.NewGroup("Server", server.bindFlags),
		cli.NewGroup("Output", func(fs *pflag.FlagSet) { cli.BindForm(fs, &form) }))
	return cmd
}

// newSweepWorkCommand takes cells from a queue.
func newSweepWorkCommand(s cli.Streams) *cobra.Command {
	var (
		server serverFlags
		work   workFlags
		drain  bool
	)
	cmd := &cobra.Command{
		Use:     "work",
		Short:   "Work on the cells of a queue",
		Long:    "Take cells from a queue and replay them, until a signal ends it; cells in work\ngo back then.",
		Example: "  replay sweep work --nats nats://host:4222",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := server.openQueue(cmd.Context())
			if err != nil {
				return err
			}
			defer q.Close()
			worker, err := work.makeWorker(s, q)
			if err != nil {
				return err
			}
			worker.Drain = drain
			return errors.Join(worker.Run(cmd.Context()), cmd.Context().Err())
		},
	}
	cli.BindGroups(cmd, cli.NewGroup("Server", server.bindFlags), cli.NewGroup("Work", work.bindFlags), cli.NewGroup("End", func(fs *pflag.FlagSet) {
		fs.BoolVar(&drain, "drain", false, "end when the queue is empty")
	}))
	return cmd
}

// onSweep is a command about a sweep that was submitted.
func onSweep(cmd *cobra.Command, act func(context.Context, *queue.Queue, *queue.Manifest) error, groups ...cli.Group) *cobra.Command {
	var server serverFlags
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cli.Usagef("want the id that replay sweep submit printed")
		}
		q, err := server.openQueue(cmd.Context())
		if err != nil {
			return err
		}
		defer q.Close()
		m, err := q.Manifest(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return act(cmd.Context(), q, m)
	}
	cli.BindGroups(cmd, append([]cli.Group{cli.NewGroup("Server", server.bindFlags)}, groups...)...)
	return cmd
}

// newSweepCollectCommand prints the table of a sweep.
func newSweepCollectCommand(s cli.Streams) *cobra.Command {
	var (
		table sweeps.TableFlags
		wait  bool
	)
	return onSweep(&cobra.Command{
		Use:     "collect ID",
		Short:   "Print what the cells of a sweep came to",
		Example: "  replay sweep collect 0123456789ab --nats nats://host:4222 --output csv",
	}, func(ctx context.Context, q *queue.Queue, m *queue.Manifest) error {
		if err := table.Check(); err != nil {
			return err
		}
		if wait {
			bar := cli.NewProgress(s.Err, "cells")
			err := q.Wait(ctx, m, func(left int) { bar.Show(len(m.Keys)-left, len(m.Keys)) })
			bar.Clear()
			if err != nil {
				return err
			}
		}
		return collectTable(ctx, s, q, m, &table)
	}, cli.NewGroup("Table", table.Bind), cli.NewGroup("Run", func(fs *pflag.FlagSet) {
		fs.BoolVar(&wait, "wait", false, "wait until no cell is left")
	}))
}
