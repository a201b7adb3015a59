package trtllmcheck

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
)

// The scripts print their help, and compare a fake engine with a replay.
func TestDryRun(t *testing.T) {
	python := optional.Python(t)
	replay := filepath.Join(t.TempDir(), "replay")
	if out, err := exec.Command("go", "build", "-o", replay, "github.com/replay-llm/replay/cmd/replay").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for script, want := range map[string]string{
		"events.py": "engine: events: [('stored', 4), ('removed', 1), ('stored', 3), ('removed', 1), ('stored', 1)]",
		"pauses.py": "engine: pauses: 1",
	} {
		out, err := exec.Command(python, script, "--help").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--fake FILE") || !strings.Contains(string(out), "Requires a GPU") {
			t.Errorf("%s --help: %v\n%s", script, err, out)
		}
		out, err = exec.Command(python, script, "--fake", "fake.py", "--replay", replay).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) || !strings.HasSuffix(string(out), "equal\n") {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}
