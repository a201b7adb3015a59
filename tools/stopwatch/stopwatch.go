// Package stopwatch is what the tools that measure whole commands have in
// common: it builds the program, runs it, and is the command line around both.
package stopwatch

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"time"
)

// Tool is a command that measures the program on a recorded trace and ends with
// exit code 1 when a bound is missed.
type Tool struct {
	Name   string
	Pairs  int                 // how often, unless -pairs says otherwise
	Unit   string              // what Pairs counts
	Bind   func(*flag.FlagSet) // adds its own flags
	Trace  string              // to replay
	Binary string              // the program to measure

	// Measure prints what it measures and reports whether the bounds hold. What it
	// leaves in dir is removed.
	Measure func(ctx context.Context, dir string, out io.Writer) (held bool, err error)
}

// Run runs one command line of the tool and returns its exit code.
func (t *Tool) Run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet(t.Name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&t.Pairs, "pairs", t.Pairs, t.Unit)
	fs.StringVar(&t.Trace, "trace", "../shared/traces/mooncake_conversation.jsonl", "the trace to replay")
	fs.StringVar(&t.Binary, "binary", "", "replay binary; empty: build it")
	t.Bind(fs)
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if t.Pairs < 1 || fs.NArg() > 0 {
		fmt.Fprintf(stderr, "%s: want flags only, and at least one pair\n", t.Name)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	held, err := t.measure(ctx, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", t.Name, err)
	}
	if err != nil || !held {
		return 1
	}
	return 0
}

func (t *Tool) measure(ctx context.Context, out io.Writer) (held bool, err error) {
	if _, err := os.Stat(t.Trace); err != nil {
		fmt.Fprintf(out, "%s: skipped, there is no trace at %s\n", t.Name, t.Trace)
		return true, nil
	}
	dir, err := os.MkdirTemp("", t.Name)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if t.Binary, err = Find(ctx, t.Binary, dir); err != nil {
		return false, err
	}
	return t.Measure(ctx, dir, out)
}

// Cost is what a command took and printed.
type Cost struct {
	Wall, CPU time.Duration
	Output    []byte
}

// Once runs the program and returns what that took.
func (t *Tool) Once(ctx context.Context, args ...string) (Cost, error) {
	cmd := exec.CommandContext(ctx, t.Binary, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	started := time.Now()
	output, err := cmd.Output()
	wall := time.Since(started)
	if err != nil {
		return Cost{}, fmt.Errorf("replay %v: %w\n%s", args, err, &errs)
	}
	state := cmd.ProcessState
	return Cost{wall, state.UserTime() + state.SystemTime(), output}, nil
}

// Median returns the value in the middle, or the mean of the two in the middle.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Milliseconds returns d in ms.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
