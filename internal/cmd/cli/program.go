package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Streams are the standard streams of a command, and where it stands.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Args     []string // the command line without the program
	Again    string   // where to record a run that was run before, and nothing else; usually ""
	Program  Program
	calm     chan struct{} // gets one from a command that ends in its own time after a signal; may be nil
	terminal bool          // they are those of the process itself
	// variables are the flags of Args that variables of the environment set.
	variables []string
}

// patience is how long a command may take to notice that it is to end, and to
// write all of a run in real time.
const patience = 900 * time.Millisecond

// Program makes the commands of a program that a command line can want.
type Program func(s Streams, args []string) *cobra.Command

// Start runs the program on the arguments and streams of the process, and ends
// the process.
func (p Program) Start() {
	delayCollection()
	os.Exit(p.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Run carries out one command line and returns its exit code. A first signal
// ends the command in good order, a second one at once.
func (p Program) Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal()
	defer stop()
	s := Streams{In: NewStdin(ctx, stdin), Out: stdout, Err: stderr, Args: args}
	s.terminal = stdin == os.Stdin && stdout == os.Stdout && stderr == os.Stderr
	return p.RunIn(ctx, s)
}

// RunIn carries out the command line of s until ctx ends, and returns its exit code.
func (p Program) RunIn(ctx context.Context, s Streams) int {
	s.Program, s.calm = p, make(chan struct{}, 1)
	environ, err := readUserFile(userFile())
	if err == nil {
		s, err = s.withVariables(append(environ, os.Environ()...)) // the last of a name counts
	}
	if err != nil {
		return printError(s, err, codeOf(err))
	}
	s = s.withLogFormat()
	told := s
	s, end := s.withVerbosity()
	defer end()
	ended := make(chan error, 1)
	go func() {
		roomOnStack(0)
		ended <- guardPanics(s, func() error { return s.Execute(ctx, s.Args) })
	}()

	err = waitForEnd(ctx, s, ended)
	var signal *SignalError
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &signal):
		return printError(told, signal, signal.Exit())
	case isSilent(err):
		return codeOf(err)
	}
	return printError(told, err, codeOf(err))
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
			cancel(&SignalError{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// SignalError is a signal that ended a command.
type SignalError struct{ signal os.Signal }

// NewInterrupt returns the cause of a context that ends as with an interrupt.
func NewInterrupt() error { return &SignalError{os.Interrupt} }

func (e *SignalError) Error() string {
	if e.signal == os.Interrupt {
		return "interrupted"
	}
	return "terminated"
}

// signalOf is the signal that ended ctx.
func signalOf(ctx context.Context) os.Signal {
	var signal *SignalError
	if errors.As(context.Cause(ctx), &signal) {
		return signal.signal
	}
	return os.Interrupt
}

func (e *SignalError) Exit() int {
	if e.signal == os.Interrupt {
		return ExitInterrupted
	}
	return ExitTerminated
}

// waitForEnd is the error of a command, or that of ctx when the command does not end
// although ctx has.
func waitForEnd(ctx context.Context, s Streams, ended <-chan error) error {
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

// EndInOwnTime lets the command take longer than patience to end in good order. A
// second signal still ends it at once.
func (s Streams) EndInOwnTime() {
	select {
	case s.calm <- struct{}{}:
	default:
	}
}

// Execute carries out another command line of the program.
func (s Streams) Execute(ctx context.Context, args []string) error {
	if s.asksVersion(args) {
		_, err := fmt.Fprintf(s.Out, "%s %s\n", s.Program(s, args).Use, Version())
		return err
	}
	root := s.Program(s, args)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	return root.ExecuteContext(ctx)
}

// asksVersion reports whether a command line asks for the version of the program. The library would print it by a template, and
// templates look methods up by name: for that the linker keeps every exported method of the program.
func (s Streams) asksVersion(args []string) bool {
	if !slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, "--version") || strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.Contains(arg, "v")
	}) {
		return false
	}
	root := s.Program(s, args)
	cmd, rest, err := root.Find(args)
	if err != nil || cmd != root {
		return false
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if cmd.ParseFlags(rest) != nil {
		return false
	}
	help, _ := cmd.Flags().GetBool("help")
	version, _ := cmd.Flags().GetBool("version")
	return version && !help
}

// printError prints err on one line.
func printError(s Streams, err error, code int) int {
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	text = excerpt.CutMiddle(s.nameVariables(text), excerpt.Longest)
	if log, ok := s.Err.(*jsonLog); ok {
		_ = log.log("ERROR", text)
		return code
	}
	fmt.Fprintf(s.Err, "replay: %s\n", text)
	return code
}

// Warn prints a warning.
func (s Streams) Warn(text string) { fmt.Fprintln(s.Err, FormatWarning(text)) }

// FormatWarning returns the line of a warning.
func FormatWarning(text string) string { return FormatNote("warning: " + text) }

// FormatNote returns the line of a note on standard error.
func FormatNote(text string) string { return "replay: " + excerpt.CutMiddle(text, excerpt.Longest) }
