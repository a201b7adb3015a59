package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestVerbosity checks that -q prints only warnings and errors, and that -v also prints the input files and the
// elapsed time.
func TestVerbosity(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv(progressVariable, "lines")
	t.Chdir(t.TempDir())
	if err := os.WriteFile("trace.jsonl", []byte("12345"), 0o644); err != nil {
		t.Fatal(err)
	}
	program := func(s Streams, args []string) *cobra.Command {
		cmd := NewProgram(&cobra.Command{Use: "replay"})
		AddWanted(cmd, s, args, WithVerbosity([]Subcommand{NewSubcommand("job", func(s Streams) *cobra.Command {
			return BindOwn(&cobra.Command{Use: "job", RunE: func(*cobra.Command, []string) error {
				fmt.Fprintln(s.Out, "result")
				fmt.Fprintln(s.Err, FormatNote("a note"))
				s.Warn("a warning")
				NewProgress(s.Err, "cells").Show(1, 1)
				return Usagef("an error")
			}}, func(fs *pflag.FlagSet) { fs.String("deployment", "", "a `file`") })
		})}))
		return cmd
	}
	const warned = "replay: warning: a warning\n"
	for args, want := range map[string]string{
		"job":                                  "replay: a note\n" + warned + "progress: 1 of 1 cells\nreplay: an error\n",
		"job -q":                               warned + "replay: an error\n",
		"job -qv":                              warned + "replay: an error\nreplay: took ",
		"job -v":                               "replay: a note\n" + warned + "progress: 1 of 1 cells\nreplay: an error\nreplay: took ",
		"job --quiet --deployment trace.jsonl": warned + "replay: an error\n",
		"job -v -q trace.jsonl":                "replay: reads trace.jsonl, 5 bytes\n" + warned + "replay: an error\nreplay: took ",
	} {
		var out, errs bytes.Buffer
		Program(program).RunIn(context.Background(), Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Args: strings.Fields(args)})
		if got := errs.String(); out.String() != "result\n" || !strings.HasPrefix(got, want) || strings.Count(got, "\n") > strings.Count(want, "\n")+1 {
			t.Errorf("%s: %q, must be %q", args, got, want)
		}
	}
}
