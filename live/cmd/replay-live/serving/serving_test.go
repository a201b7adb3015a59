package serving_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/live/cmd/replay-live/serving"
)

// Logs are text with keys, or lines of JSON with --log-format json.
func TestNewLog(t *testing.T) {
	program := func(s cli.Streams, args []string) *cobra.Command {
		cmd := cli.NewProgram(&cobra.Command{Use: "replay-live"})
		cli.AddWanted(cmd, s, args, []cli.Subcommand{cli.NewSubcommand("job", func(s cli.Streams) *cobra.Command {
			return cli.BindOwn(&cobra.Command{Use: "job", RunE: func(*cobra.Command, []string) error {
				serving.NewLog(s).Warn("a worker was lost", "worker", 17)
				serving.NewLog(s).Info("a worker was found")
				s.Warn("of the command itself")
				return nil
			}}, cli.BindLogFormat)
		})})
		return cmd
	}
	run := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := cli.Program(program).RunIn(context.Background(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Args: args}); code != 0 {
			t.Fatalf("exit %d: %s", code, &errs)
		}
		return errs.String()
	}
	if text := run("job"); !strings.HasPrefix(text, "time=") || !strings.Contains(text, "level=WARN msg=\"a worker was lost\" worker=17\nreplay: warning: of the command itself\n") {
		t.Error(text)
	}
	type line struct {
		Time, Level, Msg string
		Worker           int
	}
	d := json.NewDecoder(strings.NewReader(run("job", "--log-format=json")))
	for _, want := range []line{{Level: "WARN", Msg: "a worker was lost", Worker: 17}, {Level: "WARN", Msg: "of the command itself"}} {
		var got line
		if err := d.Decode(&got); err != nil || got.Time == "" {
			t.Fatalf("%+v: %v", got, err)
		}
		if got.Time = ""; got != want {
			t.Errorf("%+v, must be %+v", got, want)
		}
	}
	if d.More() {
		t.Error("more lines")
	}
}
