package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/passes"
	"github.com/replay-llm/replay/report/rundir"
)

// recordOnly makes a run leave a directory with its passes, whatever its flags
// ask for.
func (o *options) recordOnly(dir string) {
	for _, name := range []string{
		"report-json", "report-format", "requests-format", "overwrite", "force", "slo-exit",
		"timeline", "timeline-from", "timeline-to", "timeline-request",
	} {
		if f := o.fs.Lookup(name); f != nil {
			f.Changed = false
		}
	}
	out := &o.outputs
	out.requests, out.dir, out.passes, out.digest = "", dir, true, false
	out.overwrite, out.force, out.sloExit = false, false, false
	out.form.value, out.names.value, o.output.form.value = "parquet", "native", "table"
}

// findPass looks for the first pass at which the schedules of two runs part. A
// run that has no passes recorded is run again, if rerun says so.
func findPass(ctx context.Context, d *diff.Diff, a, b *diff.Side, rerun bool) error {
	var found [2][]passes.Pass
	for i, side := range []*diff.Side{a, b} {
		all, err := side.Passes()
		if errors.Is(err, fs.ErrNotExist) {
			if !rerun {
				d.NoPass = side.Name + " has no passes recorded"
				return nil
			}
			all, err = runAgain(ctx, side)
			var cannot *cannotError
			if errors.As(err, &cannot) {
				d.NoPass = err.Error()
				return nil
			}
		}
		if err != nil {
			return err
		}
		found[i] = all
	}
	d.FindPass(a, b, found[0], found[1])
	return nil
}

// cannotError says why a run cannot be run again.
type cannotError struct{ text string }

func (e *cannotError) Error() string { return e.text }

func cannot(format string, args ...any) error { return &cannotError{fmt.Sprintf(format, args...)} }

// runAgain runs the command of a recorded run again, and returns its passes if it
// gives the same.
func runAgain(ctx context.Context, side *diff.Side) (all []passes.Pass, err error) {
	run := side.Run
	if slices.ContainsFunc(run.Inputs, func(in rundir.Input) bool { return in.Path == "-" }) {
		return nil, cannot("%s: it read standard input, and has no passes recorded", side.Name)
	}
	if err := run.CheckInputs(); err != nil {
		return nil, cannot("%s: %v", side.Name, err)
	}
	temporary, err := os.MkdirTemp("", "replay-diff-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	dir := filepath.Join(temporary, "run")
	quiet := streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard, args: run.Command, again: dir}
	if err := execute(ctx, quiet, run.Command); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, cannot("%s: its command does not run any more: %v", side.Name, err)
	}
	again, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	if again.Lifecycles != run.Lifecycles {
		return nil, cannot("%s: its command gives another run now, by %s", side.Name, version())
	}
	return passes.ReadFile(filepath.Join(dir, passes.FileName))
}
