// Package stopwatch builds and runs programs for the tools that measure them. The package also computes medians.
package stopwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// Find returns the path of the replay binary to measure: the given binary, or a binary that it builds in dir.
func Find(ctx context.Context, given, dir string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	built := filepath.Join(dir, "replay")
	return built, Build(ctx, built, "./cmd/replay")
}

// Build builds a program like make, with additional flags of go build. The binary is a copy in small writes, so that
// its page cache is like that of a file read from disk. The linker's file is cached in larger pieces. A process
// counts each touched piece in full, which adds up to 7 MiB.
func Build(ctx context.Context, binary, path string, flags ...string) error {
	linked := binary + ".linked"
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), "-o", linked, path)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", path, err, out)
	}
	return errors.Join(copyProgram(binary, linked), os.Remove(linked))
}

// copyProgram copies a program in small pieces.
func copyProgram(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Cost contains the times and the output of a command.
type Cost struct {
	Wall, CPU time.Duration
	Output    []byte
}

// Once runs a program and returns its cost.
func Once(ctx context.Context, binary string, args ...string) (Cost, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
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

// Median returns the median of a value over all elements.
func Median[T any](all []T, value func(T) float64) float64 {
	var sorted []float64
	for _, one := range all {
		sorted = append(sorted, value(one))
	}
	slices.Sort(sorted)
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
