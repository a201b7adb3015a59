package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// A user's file sets flags. Environment variables and flags override the user's file. Short names of flags work.
func TestUserFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	path := filepath.Join(dir, "replay", "config.yaml")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("gpu: h100\noutput: json\njobs: 1 # of plans and sweeps\n")
	first := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := run(args, nil, &out, &errs); code != cli.ExitDone {
			t.Fatalf("%v: exit %d: %s", args, code, &errs)
		}
		return out.String()
	}
	if out := first("fit", "--model=llama-3.1-8b"); !strings.Contains(out, `"h100"`) {
		t.Errorf("without flags:\n%s", out)
	}
	if out := first("fit", "--model=llama-3.1-8b", "-o", "table", "--gpu=l4"); !strings.Contains(out, "  l4  ") {
		t.Errorf("with flags:\n%s", out)
	}
	t.Setenv("REPLAY_GPU", "a100")
	if out := first("fit", "--model=llama-3.1-8b"); !strings.Contains(out, `"a100"`) {
		t.Errorf("with a variable:\n%s", out)
	}
	for text, want := range map[string]string{"gpu: [a, b]": "config.yaml: gpu: must be one value", "- a": "config.yaml: must be flags", "wrkers: 4": "REPLAY_WRKERS: no such flag"} {
		write(text)
		var errs bytes.Buffer
		if code := run([]string{"fit", "--model=llama-3.1-8b"}, nil, new(bytes.Buffer), &errs); code != cli.ExitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit %d: %s", text, code, &errs)
		}
	}
}

// The shell completes the beginnings of objectives and the flags of a grid.
func TestCompletedValues(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"__complete trace --slo ", "p99:ttft="}, {"__complete plan --slo ", "itl="}, {"__complete sweep --grid ", "workers="}, {"__complete sweep --grid router=kv,", "router=kv,round_robin"}, {"__complete plan --try ", "tp="}, {"__complete plan --vary ", "tp"}, {"__complete sweep --set ", "router="}, {"__complete trace --gpu ", "h100"},
	} {
		var out bytes.Buffer
		if code := run(strings.Split(c.line, " "), nil, &out, new(bytes.Buffer)); code != cli.ExitDone || !strings.Contains(out.String(), c.want+"\n") {
			t.Errorf("%s: exit %d\n%s\nwant %s", c.line, code, &out, c.want)
		}
	}
}
