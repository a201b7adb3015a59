package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The documentation lists every exit code, in order, and no other.
func TestExitCodesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/exit-codes.md")
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
		t.Errorf("docs/exit-codes.md does not hold\n%s", want)
	}
}

// Each kind of error has its code, however deep it is.
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

// A broken invariant is told from everything else, and where it broke is said.
func TestBrokenInvariant(t *testing.T) {
	var errs bytes.Buffer
	err := guardPanics(Streams{Err: &errs}, func() error { panic("block pool: 12 free + 5 held != 16 total") })
	if codeOf(err) != exitBroken || !strings.Contains(err.Error(), "12 free") || !strings.Contains(errs.String(), "TestBrokenInvariant") {
		t.Errorf("%v; %s", err, &errs)
	}
}
