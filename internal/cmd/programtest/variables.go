package programtest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// CheckVariables checks that a program ignores environment variables for flags of the other program, even if they
// resemble its own flags.
func CheckVariables(t *testing.T, p, other cli.Program) {
	names := map[string]bool{}
	for _, cmd := range ListCommands(other) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	}
	if len(names) < 200 {
		t.Fatalf("%d flags", len(names))
	}
	for name := range names {
		t.Setenv("REPLAY_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), "1")
	}
	var errs bytes.Buffer
	if code := p.Run([]string{"version", "--output=table"}, nil, new(bytes.Buffer), &errs); code != cli.ExitDone {
		t.Errorf("exit %d: %s", code, &errs)
	}
}
