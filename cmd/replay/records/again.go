package records

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

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/passes"
	"github.com/replay-llm/replay/report/rundir"
)

// findPass looks for the first pass at which the schedules of two runs part. A
// run that has no passes recorded is run again, unless rerun is nil.
func findPass(d *diff.Diff, a, b *diff.Side, rerun func(*diff.Side) ([]passes.Pass, error)) error {
	var found [2][]passes.Pass
	for i, side := range []*diff.Side{a, b} {
		all, err := side.Passes()
		if errors.Is(err, fs.ErrNotExist) {
			if rerun == nil {
				d.NoPass = side.Name + " has no passes recorded"
				return nil
			}
			all, err = rerun(side)
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

// cannotError is why a run cannot be run again.
type cannotError struct{ text string }

func (e *cannotError) Error() string { return e.text }

func cannotRun(format string, args ...any) error { return &cannotError{fmt.Sprintf(format, args...)} }

// runAgain runs the command of a recorded run again, and returns its passes if it
// gives the same.
func runAgain(ctx context.Context, s cli.Streams, side *diff.Side) (all []passes.Pass, err error) {
	run := side.Run
	if slices.ContainsFunc(run.Inputs, func(in rundir.Input) bool { return in.Path == "-" }) {
		return nil, cannotRun("%s: it read standard input, and has no passes recorded", side.Name)
	}
	if err := run.CheckInputs(); err != nil {
		return nil, cannotRun("%s: %v", side.Name, err)
	}
	temporary, err := os.MkdirTemp("", "replay-diff-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	dir := filepath.Join(temporary, "run")
	quiet := cli.Streams{Program: s.Program, In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Args: run.Command, Again: dir}
	if err := quiet.Execute(ctx, run.Command); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, cannotRun("%s: its command does not run any more: %v", side.Name, err)
	}
	again, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	if again.Lifecycles != run.Lifecycles {
		return nil, cannotRun("%s: its command gives another run now, by %s", side.Name, cli.Version())
	}
	return passes.ReadFile(filepath.Join(dir, passes.FileName))
}
