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

// Streams has the standard streams and the arguments of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Args     []string // arguments without the name of the program
	Again    string   // path for the record of a repeated run; usually ""
	Program  Program
	calm     chan struct{} // signaled by a command that ends later than patience after a signal; may be nil
	terminal bool          // the streams are those of the process
	// variables are the flags that environment variables set.
	variables []string
}

// patience is how long RunIn waits for a command after a signal. In this time the command notices the signal and
// writes the results of a run in real time.
const patience = 900 * time.Millisecond

// Program creates the root command with the subcommand that args name.
type Program func(s Streams, args []string) *cobra.Command

// Start runs the program with the arguments and streams of the process, and exits the process.
func (p Program) Start() {
	delayCollection()
	os.Exit(p.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Run runs a command line and returns its exit code. The first signal ends the command cleanly. The second signal
// kills the process.
func (p Program) Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal()
	defer stop()
	s := Streams{In: NewStdin(ctx, stdin), Out: stdout, Err: stderr, Args: args}
	s.terminal = stdin == os.Stdin && stdout == os.Stdout && stderr == os.Stderr
	return p.RunIn(ctx, s)
}

// RunIn runs the command line of s until ctx ends. RunIn returns the exit code.
func (p Program) RunIn(ctx context.Context, s Streams) int {
	s.Program, s.calm = p, make(chan struct{}, 1)
	environ, err := readUserFile(userFile())
	if err == nil {
		s, err = s.withVariables(append(environ, os.Environ()...)) // the last entry of a name applies
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

// roomOnStack grows the stack of this goroutine while the stack is empty. Growing a stack that has frames copies all
// frames. Copying the frames also reads tables of all functions with a frame: 0.8 MiB of the program file in a short
// replay.
//
//go:noinline
func roomOnStack(i byte) byte {
	var room [24 << 10]byte
	return room[i]
}

// untilSignal returns a context that ends at the first interrupt or termination signal. The next signal ends the
// process.
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

// SignalError is the error of a command that was ended by a signal.
type SignalError struct{ signal os.Signal }

// NewInterrupt returns the cause of a context that an interrupt has ended.
func NewInterrupt() error { return &SignalError{os.Interrupt} }

func (e *SignalError) Error() string {
	if e.signal == os.Interrupt {
		return "interrupted"
	}
	return "terminated"
}

// signalOf returns the signal that ended ctx.
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

// waitForEnd returns the error of a command. If the command does not end within patience after ctx, it returns the
// error of ctx.
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

// EndInOwnTime lets the command take longer than patience to end cleanly. A second signal still ends the command
// immediately.
func (s Streams) EndInOwnTime() {
	select {
	case s.calm <- struct{}{}:
	default:
	}
}

// Execute runs a command line of the program.
func (s Streams) Execute(ctx context.Context, args []string) error {
	if s.requestsVersion(args) {
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

// requestsVersion reports whether a command line requests the version of the program. The flag library would print the
// version with a template. Templates call methods by name, so the linker would keep every exported method.
func (s Streams) requestsVersion(args []string) bool {
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

// printError prints err as one line and returns code.
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

// Warn prints a warning to standard error.
func (s Streams) Warn(text string) { fmt.Fprintln(s.Err, FormatWarning(text)) }

// FormatWarning returns the text of a warning line.
func FormatWarning(text string) string { return FormatNote("warning: " + text) }

// FormatNote returns the text of a note line for standard error.
func FormatNote(text string) string { return "replay: " + excerpt.CutMiddle(text, excerpt.Longest) }
