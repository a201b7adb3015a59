package main

import (
	"strings"
	"testing"

	simulator "github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/programtest"
	"github.com/replay-llm/replay/live/cmd/replay-live/root"
)

// The checks that both programs must pass. The simulator has the same test.
func TestProgram(t *testing.T) {
	t.Run("help", func(t *testing.T) { programtest.CheckHelp(t, root.New) })
	t.Run("tiers", func(t *testing.T) { programtest.CheckTiers(t, root.New, "worker", "frontend") })
	t.Run("manual", func(t *testing.T) { programtest.CheckManual(t, root.New) })
	t.Run("reference", func(t *testing.T) {
		if flags := programtest.CheckReference(t, root.New); flags < 300 {
			t.Errorf("%d flags", flags)
		}
	})
	t.Run("libraries", func(t *testing.T) { programtest.CheckLibraries(t, ".") })
	t.Run("JSON", func(t *testing.T) {
		programtest.CheckJSON(t, root.New, map[string]string{
			"stack":           "has commands below it, and does nothing itself",
			"stack up":        "serves, and prints a line of JSON",
			"stack instances": "prints lines of JSON",
			"worker":          "serves, and prints a line of JSON",
			"frontend":        "serves, and prints a line of JSON",
			"vllm":            "serves, and prints lines of JSON",
			"sglang":          "serves, and prints lines of JSON",
			"record":          "serves, and prints what it has written",
			"kv-tail":         "prints events for as long as they come, with --json as lines of it",
			"conformance":     "is a test, and prints which checks failed",
		})
	})
	t.Run("variables", func(t *testing.T) {
		programtest.CheckVariables(t, root.New, simulator.New)
		programtest.CheckVariables(t, simulator.New, root.New)
	})
	long := strings.Repeat("é", 10_000)
	for _, line := range []string{
		"replay-live kv-tail --endpoint=LONG",
		"replay-live worker --discovery=LONG",
		"replay-live drive requests.jsonl --url=http://127.0.0.1:1 --body=LONG",
	} {
		programtest.CheckShort(t, root.New, strings.ReplaceAll(line, "LONG", long), 1000)
	}
	programtest.CheckSuggestion(t, root.New, "replay-live wroker", "worker", cli.ExitUsage)
	programtest.CheckSuggestion(t, root.New, "replay-live stack instnces", "instances", cli.ExitUsage)
}
