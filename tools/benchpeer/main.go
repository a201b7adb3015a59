// Command benchpeer measures the speed-up over the published reference. The command also measures the growth of time
// and memory with the workload, and the cost of sweeps and output files.
//
//	go run ./tools/benchpeer                    the whole table; takes ten minutes
//	go run ./tools/benchpeer -only 'KV router'  some rows, by title or name
//	go run ./tools/benchpeer -only 'vllm rules' vLLM's own rules and the reference's, without it; or 'sglang rules', windows, threads
//	go run ./tools/benchpeer -quick             one pair of runs, smaller workloads
//	go run ./tools/benchpeer -scale             a million requests, 512 workers
//	go run ./tools/benchpeer sweep              sweeps of 200 cells, on one core and on two
//	go run ./tools/benchpeer outputs            the files that a run leaves
//	go run ./tools/benchpeer tile -n 1000000 SHORT.jsonl LONG.jsonl
//
// The exit code is 1 if a bound is missed. Times are wall times, so the machine must be idle.
//
// Read main.go, then program.go (one run), pairs.go (one row), table.go (what is
// printed), peers.go (the whole table), scale.go; rules.go, sweep.go and outputs.go
// need no reference. Package row has the cases and makes long traces.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/replay-llm/replay/tools/benchpeer/row"
	"github.com/replay-llm/replay/tools/stopwatch"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	commands := map[string]func(args []string, stdout, stderr io.Writer) int{
		"tile": runTile, "sweep": runSweeps, "outputs": runOutputs,
	}
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](args[1:], stdout, stderr)
	}
	return runPeers(args, stdout, stderr)
}

// bench contains the settings that all measurements share.
type bench struct {
	flags  *flag.FlagSet
	pairs  int
	binary string    // program to measure
	dir    string    // folder of temporary files
	out    io.Writer // receives the tables
	status io.Writer // receives the progress
}

// newBench returns a measurement with a default number of repetitions for -pairs. unit describes the repetitions.
func newBench(name string, pairs int, unit string, out, status io.Writer) *bench {
	b := &bench{flags: flag.NewFlagSet(name, flag.ContinueOnError), out: out, status: status}
	b.flags.SetOutput(status)
	b.flags.IntVar(&b.pairs, "pairs", pairs, unit)
	b.flags.StringVar(&b.binary, "binary", "", "replay binary; empty: build it")
	return b
}

// run executes the measurement of a command line and returns the exit code.
func (b *bench) run(args []string, check func() error, measure func(context.Context) (missed int, err error)) int {
	if err := b.flags.Parse(args); err != nil {
		return 2
	}
	err := check()
	switch {
	case b.flags.NArg() > 0:
		err = fmt.Errorf("argument %q, expected flags only, or sweep, outputs or tile first", b.flags.Arg(0))
	case b.pairs < 1:
		err = fmt.Errorf("-pairs is %d, must be at least 1", b.pairs)
	}
	if err != nil {
		fmt.Fprintf(b.status, "%s: %v\n", b.flags.Name(), err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	missed, err := b.measure(ctx, measure)
	if err != nil {
		fmt.Fprintf(b.status, "%s: %v\n", b.flags.Name(), err)
	}
	if err != nil || missed > 0 {
		return 1
	}
	return 0
}

// measure runs the measurement in a temporary directory, after building the program if needed.
func (b *bench) measure(ctx context.Context, measure func(context.Context) (missed int, err error)) (missed int, err error) {
	if b.dir, err = os.MkdirTemp("", "benchpeer"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.binary, err = stopwatch.Find(ctx, b.binary, b.dir); err != nil {
		return 0, err
	}
	return measure(ctx)
}

// findTrace returns the given trace, or the conversation trace if none is given. Without a trace findTrace prints
// that the measurement is skipped.
func (b *bench) findTrace(given string) (path string, ok bool) {
	if given != "" {
		return given, true
	}
	path, err := row.Conversation.Path()
	if err != nil {
		fmt.Fprintf(b.out, "%s: skipped: %v\n", b.flags.Name(), err)
	}
	return path, err == nil
}

// countMissed returns the verdict of a bound, and counts it if it is missed.
func countMissed(missed *int, held bool) string {
	if held {
		return "ok"
	}
	*missed++
	return "MISSED"
}

// runTile writes a long trace.
func runTile(args []string, _, stderr io.Writer) int {
	fs := flag.NewFlagSet("benchpeer tile", flag.ContinueOnError)
	fs.SetOutput(stderr)
	requests := fs.Int("n", 0, "requests of the new trace")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if fs.NArg() != 2 || *requests < 1 {
		fmt.Fprintln(stderr, "benchpeer tile: expected -n of at least 1, a trace and a file to write")
		return 2
	}
	if err := tileFile(fs.Arg(0), fs.Arg(1), *requests); err != nil {
		fmt.Fprintf(stderr, "benchpeer tile: %v\n", err)
		return 1
	}
	return 0
}

func tileFile(from, to string, requests int) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(row.Tile(out, in, from, requests), out.Close())
}
