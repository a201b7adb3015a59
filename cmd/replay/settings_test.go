package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/json"
)

// The command settings prints every declared setting and the flags that the help omits, as JSON for programs.
func TestSettingsAsJSON(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"settings", "--output", "json"}, nil, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	var rows []struct{ Key, Flag, Kind, Unit, Engine string }
	others := 0
	for _, g := range options.ListFlags() {
		if !g.Engines {
			others += len(g.Names())
		}
	}
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || others == 0 || len(rows) != len(options.EngineRows())+others {
		t.Fatalf("%d rows, of which %d are not of engines, %v", len(rows), others, err)
	}
	found := map[string]bool{}
	for _, r := range rows {
		found[r.Key+" "+r.Flag+" "+r.Kind+" "+r.Unit+" "+r.Engine] = true
	}
	for _, want := range []string{"max_num_seqs max-num-seqs limit requests vllm", "sglang.page_size page-size int tokens sglang", "max_num_active_seqs  int  ", " tp int GPUs ", " router-track-active-blocks bool  "} {
		if !found[want] {
			t.Errorf("no row %q", want)
		}
	}
}

// --help-all shows at most 120 flags of a command. replay settings lists the other flags.
func TestHelpIsShort(t *testing.T) {
	flags := regexp.MustCompile(`(?m)^ +(-.,|   ) --`)
	for _, name := range []string{"trace", "concurrency", "plan", "fork", "sweep"} {
		if n := len(flags.FindAllString(string(printed(t, []string{name, "--help-all"})), -1)); n == 0 || n > 120 {
			t.Errorf("replay %s --help-all has %d flags, must be 1 to 120", name, n)
		}
	}
}

// The list has all settings. A name selects the settings of an engine, or those with the name as a part of key or
// flag. An unknown name is an error.
func TestListOfSettings(t *testing.T) {
	for line, want := range map[string]string{
		"settings":                "\n  sglang.schedule_policy, --schedule-policy (default fifo)\n      order of the queue:",
		"settings max_num_active": "max_num_active_seqs (default none)\n", "settings tp": "--tp (GPUs; default 1)\n",
	} {
		if text := string(printed(t, strings.Fields(line))); !strings.Contains(text, want) {
			t.Errorf("replay %s:\n%s\nwant %q", line, text, want)
		}
	}
	if text := string(printed(t, []string{"settings", "trtllm"})); strings.Contains(text, "SGLang:") || !strings.Contains(text, "trtllm.max_num_tokens, --max-num-tokens (tokens; default 8192)") {
		t.Errorf("replay settings trtllm:\n%s", text)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"settings", "max_num_sqs"}, nil, &out, &errs); code != cli.ExitUsage || !strings.Contains(errs.String(), "did you mean max_num_seqs?") {
		t.Errorf("exit %d: %s", code, &errs)
	}
}
