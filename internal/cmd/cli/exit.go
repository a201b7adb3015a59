package cli

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Exit codes of all commands, as listed in docs/command-line.md.
const (
	ExitDone        = 0
	ExitRefused     = 1
	ExitUsage       = 2
	ExitDiffer      = 3 // result of replay diff and replay validate, and of a live run that exceeds its deadline
	ExitIncomplete  = 4
	ExitBudget      = 5
	ExitObjective   = 6
	ExitBehaviour   = 7
	exitBroken      = 8
	exitNoLive      = 9
	ExitInterrupted = 130
	ExitTerminated  = 143
)

// usageError is an error for an invalid command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// Usagef returns an error for an invalid command line.
func Usagef(format string, args ...any) error {
	return &usageError{excerpt.Sprintf(format, args...)}
}

// WrongUsage marks err as an error for an invalid command line.
func WrongUsage(err error) error { return &usageError{err.Error()} }

// IsUsage reports whether err is an error for an invalid command line.
func IsUsage(err error) bool {
	var usage *usageError
	return errors.As(err, &usage)
}

// CodedError is an error with an exit code. The command that returns it has already written its results.
type CodedError struct {
	Code int
	err  error // nil if the command has printed the error
}

func (e *CodedError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.err.Error()
}

// ExitWith returns an error with an exit code and no message, for a command that has printed its results.
func ExitWith(code int) error { return &CodedError{Code: code} }

func (e *CodedError) Unwrap() error { return e.err }

// Coded returns an error with an exit code.
func Coded(code int, format string, args ...any) error {
	return &CodedError{code, fmt.Errorf(format, args...)}
}

// codeOf returns the exit code for the error of a command.
func codeOf(err error) int {
	var own *CodedError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &own):
		return own.Code
	case IsUsage(err):
		return ExitUsage
	}
	return ExitRefused
}

// isSilent reports whether err has an exit code and no message.
func isSilent(err error) bool {
	var own *CodedError
	return errors.As(err, &own) && own.err == nil
}

// guardPanics runs a command. guardPanics converts a panic to an error and prints the stack.
func guardPanics(s Streams, command func() error) (err error) {
	defer func() {
		if broken := recover(); broken != nil {
			fmt.Fprintf(s.Err, "%s\n", debug.Stack())
			err = Coded(exitBroken, "a broken invariant, please report it: %v", broken)
		}
	}()
	return command()
}
