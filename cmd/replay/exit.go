package main

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Exit codes of all commands; docs/exit-codes.md says them to people.
const (
	exitDone        = 0
	exitRefused     = 1
	exitUsage       = 2
	exitDiffer      = 3 // replay diff; the deadline of a live run has passed
	exitIncomplete  = 4
	exitBudget      = 5
	exitObjective   = 6
	exitBehaviour   = 7
	exitBroken      = 8
	exitInterrupted = 130
	exitTerminated  = 143
)

// exitCode is a code and what it means.
type exitCode struct {
	code    int
	meaning string
}

// exitCodes are all codes a command can end with.
func exitCodes() []exitCode {
	return []exitCode{
		{exitDone, "done; `replay diff`: no difference; `replay check`: all budgets hold"},
		{exitRefused, "refused input, or a run that stalled or failed; nothing was written"},
		{exitUsage, "wrong usage: a flag or an argument that makes no sense"},
		{exitDiffer, "`replay diff`: the runs differ; a live run: its deadline passed"},
		{exitIncomplete, "the run ended, and some of its requests or cells did not complete"},
		{exitBudget, "`replay check`: a budget is exceeded"},
		{exitObjective, "`--slo-exit`: an objective is missed; `replay plan`: no cluster considered meets the objectives"},
		{exitBehaviour, "`replay check`: all budgets hold, and requests went another way than in the baseline; `replay verify`: files do not say what was recorded of them"},
		{exitBroken, "a broken invariant: a bug in this program, please report it"},
		{exitInterrupted, "interrupted (SIGINT)"},
		{exitTerminated, "terminated (SIGTERM)"},
	}
}

// codedError is an error with an exit code of its own. Whoever makes one has
// written its results.
type codedError struct {
	code int
	err  error // nil when nothing is left to be said
}

func (e *codedError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codedError) Unwrap() error { return e.err }

func coded(code int, format string, args ...any) error {
	return &codedError{code, fmt.Errorf(format, args...)}
}

// codeOf is the exit code of a command that ended with err.
func codeOf(err error) int {
	var own *codedError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &own):
		return own.code
	case isUsage(err):
		return exitUsage
	}
	return exitRefused
}

// silent says that err is an exit code and no more.
func silent(err error) bool {
	var own *codedError
	return errors.As(err, &own) && own.err == nil
}

// guard makes an error of a panic, with the place where it happened.
func guard(s streams, command func() error) (err error) {
	defer func() {
		if broken := recover(); broken != nil {
			fmt.Fprintf(s.err, "%s\n", debug.Stack())
			err = coded(exitBroken, "a broken invariant, please report it: %v", broken)
		}
	}()
	return command()
}
