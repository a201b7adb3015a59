package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/internal/json"
)

// TestLogFormat checks that a command with --log-format json prints all messages as lines of JSON.
func TestLogFormat(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	program := func(s Streams, args []string) *cobra.Command {
		cmd := NewProgram(&cobra.Command{Use: "replay"})
		AddWanted(cmd, s, args, WithVerbosity([]Subcommand{NewSubcommand("job", func(s Streams) *cobra.Command {
			return BindOwn(&cobra.Command{Use: "job", RunE: func(*cobra.Command, []string) error {
				fmt.Fprintln(s.Out, "result")
				fmt.Fprintln(s.Err, FormatNote("a note"))
				fmt.Fprint(s.Err, "half ")
				fmt.Fprint(s.Err, "and half\n\n")
				s.Warn("a \"warning\"")
				return Usagef("an error")
			}}, BindLogFormat)
		})}))
		return cmd
	}
	run := func(args ...string) (string, string) {
		var out, errs bytes.Buffer
		Program(program).RunIn(context.Background(), Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Args: append([]string{"job"}, args...)})
		return out.String(), errs.String()
	}
	const text = "replay: a note\nhalf and half\n\nreplay: warning: a \"warning\"\nreplay: an error\n"
	for _, args := range [][]string{nil, {"--log-format=text"}} {
		if _, errs := run(args...); errs != text {
			t.Errorf("%v: %q, must be %q", args, errs, text)
		}
	}
	want := []logLine{{Level: "INFO", Message: "a note"}, {Level: "INFO", Message: "half and half"}, {Level: "WARN", Message: `a "warning"`}, {Level: "ERROR", Message: "an error"}}
	check := func(args ...string) {
		t.Helper()
		out, errs := run(args...)
		lines := strings.Split(strings.TrimSpace(errs), "\n")
		if out != "result\n" || len(lines) != len(want) {
			t.Fatalf("%v: %q, %q", args, out, errs)
		}
		for i, line := range lines {
			var got logLine
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if at, err := time.Parse(time.RFC3339Nano, got.Time); err != nil || time.Since(at) > time.Minute {
				t.Errorf("%s: %v", line, err)
			}
			if got.Time = ""; got != want[i] {
				t.Errorf("%+v, must be %+v", got, want[i])
			}
		}
	}
	check("--log-format=json")
	check("--log-format", "json")
	t.Setenv("REPLAY_LOG_FORMAT", "json")
	check()
	if _, errs := run("--log-format=xml"); !strings.HasPrefix(errs, "replay: --log-format=xml: must be text or json") {
		t.Error(errs)
	}
}
