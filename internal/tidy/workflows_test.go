package tidy

import (
	"regexp"
	"strings"
	"testing"
)

// Workflows pin actions by the SHA of a commit with the tag in a comment, because a tag can be moved. Documentation
// refers to the action of this repository by its branch, and workflows refer to it by its folder.
func TestActionsArePinned(t *testing.T) {
	uses := regexp.MustCompile(`^\s*(?:- )?uses:\s*(.+)$`)
	pinned := regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	checked := 0
	for _, name := range listFiles(t) {
		if !strings.HasPrefix(name, ".github/") && name != "action.yml" && name != "docs/command-line.md" {
			continue
		}
		for line := range strings.Lines(readFile(t, name)) {
			m := uses.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m == nil || strings.HasPrefix(m[1], "./") || name == "docs/command-line.md" && strings.HasPrefix(m[1], "replay-llm/replay@") {
				continue
			}
			if checked++; !pinned.MatchString(m[1]) {
				t.Errorf("%s: uses %s, want OWNER/NAME@SHA # vX.Y.Z", name, m[1])
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d actions, want all", checked)
	}
}

// Workflows have read-only access to the repository unless a job requests more. Every job has a timeout.
func TestWorkflowsAreBounded(t *testing.T) {
	checked := 0
	for _, name := range listFiles(t) {
		if !strings.HasPrefix(name, ".github/workflows/") {
			continue
		}
		checked++
		text := readFile(t, name)
		if !strings.Contains(text, "\npermissions:\n  contents: read\njobs:\n") {
			t.Errorf("%s: want permissions of contents: read above its jobs", name)
		}
		if jobs, limits := strings.Count(text, "\n    runs-on:"), strings.Count(text, "\n    timeout-minutes:"); jobs == 0 || jobs != limits {
			t.Errorf("%s: %d jobs and %d timeout-minutes, want one each", name, jobs, limits)
		}
	}
	if checked < 2 {
		t.Errorf("%d workflows, want all", checked)
	}
}
