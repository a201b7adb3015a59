package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
)

// The steps of the workflow in docs/command-line.md pass on the example. If a budget is exceeded, they fail and
// report this in the places that GitHub reads.
func TestWorkflow(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../docs/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := workflowSteps(string(text))
	if len(steps) != 3 {
		t.Fatalf("%d steps that replay runs, want 3: %q", len(steps), steps)
	}
	dir := copyRepository(t, here, filepath.Join(here, "..", "..", "..")).dir
	t.Chdir(dir)
	clitest.EnterPath(t, "replay")
	t.Setenv("GITHUB_ACTIONS", "true")
	t.Setenv("GITHUB_STEP_SUMMARY", filepath.Join(dir, "summary.md"))
	clitest.Shell(t, dir, "replay check budgets.yaml --update", 0)
	for _, step := range steps {
		clitest.Shell(t, dir, step, 0)
	}
	if summary, err := os.ReadFile("summary.md"); err != nil || !bytes.Contains(summary, []byte("| `p99_ttft_ms` | 24.20 |")) {
		t.Errorf("%v; the summary is\n%s", err, summary)
	}
	if junit, err := os.ReadFile("out/junit.xml"); err != nil || !bytes.Contains(junit, []byte(`tests="6" failures="0"`)) {
		t.Errorf("%v; junit.xml is\n%s", err, junit)
	}

	clitest.Shell(t, dir, "replay trace requests.jsonl --trace-block-size 64 --out out/run --overwrite", 0)
	out := clitest.Shell(t, dir, steps[1], cli.ExitBudget)
	if !strings.Contains(out, "::error file=budgets.yaml,line=4,title=budget of p99_ttft_ms exceeded::") {
		t.Errorf("no annotation in\n%s", out)
	}
}

// workflowSteps returns the commands of a workflow that run replay.
func workflowSteps(text string) []string {
	_, text, _ = strings.Cut(text, "## A workflow")
	var steps []string
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "run: ")
		if strings.HasPrefix(line, "replay ") {
			steps = append(steps, line)
		}
	}
	return steps
}
