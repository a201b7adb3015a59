// Package stopwatch is the common part of tools that run the program: they build it, run it, and take medians of time
// and memory.
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

// Find returns the replay binary to measure: the one that is given, or else one
// that it builds in dir.
func Find(ctx context.Context, given, dir string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	built := filepath.Join(dir, "replay")
	return built, Build(ctx, built, "./cmd/replay")
}

// Build builds a program as make does, with more flags of go build. The binary is a copy, which lies in memory
// as one that is read from a disk. What the linker wrote lies there in larger
// pieces, and a process counts all of a piece that it touches: up to 7 MiB more.
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

// Cost is what a command took and printed.
type Cost struct {
	Wall, CPU time.Duration
	Output    []byte
}

// Once runs a program and returns what that took.
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

// Median returns the value of all that is in the middle, or the mean of the two
// in the middle.
func Median[T any](all []T, value func(T) float64) float64 {
	var sorted []float64
	for _, one := range all {
		sorted = append(sorted, value(one))
	}
	slices.Sort(sorted)
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
