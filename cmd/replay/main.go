// Command replay simulates clusters of LLM inference engines on recorded or
// synthetic workloads, in logical time.
//
// Read main.go, root.go, trace.go and concurrency.go for the commands; then
// input.go, cluster.go, engine.go, router.go, limits.go and output.go, each of
// which holds one group of flags; pool.go makes engines of them, scale.go reads
// when their number changes, spec.go brings all together.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	delayCollection()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
	args     []string      // the command line without the program
	calm     chan struct{} // gets one from a command that ends in its own time after a signal; may be nil
	again    string        // where to record a run that was run before, and nothing else; usually ""
}

// patience is how long a command may take to notice that it is to end, and to
// write what there is of a run in real time.
const patience = 900 * time.Millisecond

// run carries out one command line and returns its exit code. A first signal
// ends the command in good order, a second one at once.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal()
	defer stop()
	s := streams{in: newStdin(ctx, stdin), out: stdout, err: stderr, args: args, calm: make(chan struct{}, 1)}
	ended := make(chan error, 1)
	go func() {
		roomOnStack(0)
		ended <- guard(s, func() error { return execute(ctx, s, args) })
	}()

	err := wait(ctx, s, ended)
	var signal *signalError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &signal):
		return report(s, signal, signal.exit())
	case silent(err):
		return codeOf(err)
	}
	return report(s, err, codeOf(err))
}

// roomOnStack lets the stack of this goroutine grow once, now that nothing is on
// it. A stack that grows is walked, and to walk it the tables of all functions
// on it are read: 0.8 MiB of the program's file by the end of a short replay.
//
//go:noinline
func roomOnStack(i byte) byte {
	var room [24 << 10]byte
	return room[i]
}

// untilSignal is a context that ends with the first signal to stop. The next
// one ends the process.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case sig := <-signals:
			signal.Stop(signals)
			cancel(&signalError{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// signalError is a signal that ended a command.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string {
	if e.signal == os.Interrupt {
		return "interrupted"
	}
	return "terminated"
}

func (e *signalError) exit() int {
	if e.signal == os.Interrupt {
		return exitInterrupted
	}
	return exitTerminated
}

// wait is the error of a command, or that of ctx when the command does not end
// although ctx has.
func wait(ctx context.Context, s streams, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
	}
	select {
	case <-s.calm:
		return <-ended
	default:
		return ctx.Err()
	}
}

func execute(ctx context.Context, s streams, args []string) error {
	root := newRootCommand(s, args)
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	return root.ExecuteContext(ctx)
}

// report prints err on one line.
func report(s streams, err error, code int) int {
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	fmt.Fprintf(s.err, "replay: %s\n", text)
	return code
}

// usageError is a command line that makes no sense.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

func isUsage(err error) bool {
	var usage *usageError
	return errors.As(err, &usage)
}
