package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// exitCode is an exit code with its meaning.
type exitCode struct {
	code    int
	meaning string
}

// exitCodes returns all exit codes of commands.
func exitCodes() []exitCode {
	return []exitCode{
		{ExitDone, "done; `replay diff`: no difference; `replay check`: all budgets hold"},
		{ExitRefused, "refused input, or a run that stalled or failed; nothing was written"},
		{ExitUsage, "wrong usage: an invalid flag or argument"},
		{ExitDiffer, "`replay diff`: the runs differ; `replay validate --tolerance`: a mean is further off; a live run: its deadline passed"},
		{ExitIncomplete, "the run ended, and some of its requests or cells did not complete"},
		{ExitBudget, "`replay check`: a budget is exceeded"},
		{ExitObjective, "`--slo-exit`: an objective is missed; `replay plan`: no cluster considered meets the objectives"},
		{ExitBehaviour, "`replay check`: all budgets hold, and routing or scheduling changed; `replay verify`: a file differs from its record"},
		{exitBroken, "a broken invariant: a bug in this program, please report it"},
		{exitNoLive, "the command requires `replay-live`, which is neither in the folder of `replay` nor on the path"},
		{ExitInterrupted, "interrupted (SIGINT)"},
		{ExitTerminated, "terminated (SIGTERM)"},
	}
}

// The documentation lists exactly these exit codes, in order.
func TestExitCodesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	want := "| Code | Meaning |\n| --- | --- |\n"
	last := -1
	for _, c := range exitCodes() {
		if c.code <= last {
			t.Errorf("code %d comes after %d", c.code, last)
		}
		last = c.code
		want += fmt.Sprintf("| %d | %s |\n", c.code, c.meaning)
	}
	if !strings.Contains(string(text), want+"\n") {
		t.Errorf("docs/command-line.md does not hold\n%s", want)
	}
}

// Errors have the exit code of their kind, also if they are wrapped.
func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, ExitDone}, {errors.New("x"), ExitRefused}, {Usagef("x"), ExitUsage},
		{fmt.Errorf("a: %w", Usagef("x")), ExitUsage}, {fmt.Errorf("a: %w", Coded(ExitBudget, "x")), ExitBudget},
		{&CodedError{Code: ExitDiffer}, ExitDiffer},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

// A panic has a separate exit code, and the output contains the stack.
func TestBrokenInvariant(t *testing.T) {
	var errs bytes.Buffer
	err := guardPanics(Streams{Err: &errs}, func() error { panic("block pool: 12 free + 5 held != 16 total") })
	if codeOf(err) != exitBroken || !strings.Contains(err.Error(), "12 free") || !strings.Contains(errs.String(), "TestBrokenInvariant") {
		t.Errorf("%v; %s", err, &errs)
	}
}
