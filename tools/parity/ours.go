package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ours is the binary to test, built when none is given.
func ours(ctx context.Context, binary, dir string) (string, error) {
	if binary != "" {
		return binary, nil
	}
	binary = filepath.Join(dir, "replay")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/replay").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/replay: %w\n%s", err, out)
	}
	return binary, nil
}

// ourPatience is how long a run of ours may take, whatever is asked.
const ourPatience = 20 * time.Second

// errOursEndless is a run of ours that had to be stopped.
var errOursEndless = errors.New("ours did not end in time")

// runOurs runs our binary.
func runOurs(ctx context.Context, binary string, args []string, more ...string) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, ourPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args[:len(args):len(args)], more...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	got := outcome{said: strings.TrimSpace(stderr.String())}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return got, errOursEndless
	case errors.As(err, &exit):
		got.code = exit.ExitCode()
		return got, nil
	}
	return got, err
}
