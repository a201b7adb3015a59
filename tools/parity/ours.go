package main

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"
)

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
