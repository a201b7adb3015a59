// Package changes applies the most common kinds of code changes and counts the files that each change edits.
// ARCHITECTURE.md, "Where to make which change", lists these counts.
package changes

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/internal/optional"
)

// edit inserts the text add into a file, after the line that contains anchor. Without an anchor edit creates the
// file.
type edit struct{ file, anchor, add string }

// change is a code change with a command that shows that the change works.
type change struct {
	files int // maximum number of edited files by ARCHITECTURE.md, without tests and docs
	edits []edit
	line  string // arguments of the replay command
	want  string // text that the output of the command must contain
}

const run = "trace testdata/traces/short.jsonl --workers 2"

func listChanges() map[string]change {
	return map[string]change{
		"a router policy": {2, []edit{
			{"router/policy/newest.go", "", `package policy

import (
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// newest takes the worker that came last.
type newest struct{}

func newNewest(Options) (router.Policy, error) { return newest{}, nil }

func (newest) Needs() router.Needs { return router.Needs{} }

func (newest) Choose(_ *sim.Request, c *router.Candidates) router.Choice {
	return router.Choice{Worker: c.Workers[len(c.Workers)-1], Second: router.None}
}
`},
			{"router/policy/registry.go", "return []Info{", "\t\t" + `{Name: "newest", Report: "newest", MinWorkers: 1, make: newNewest, Help: "the worker that came last"},`},
		}, run + " --router newest --output json", `"completed_requests": `},

		"an engine argument": {1, []edit{
			{"scheduler/sglang/settings.go", "type Settings struct {", "\tHeadTokens int"},
			{"scheduler/sglang/settings.go", `d.Alone("sglang")`, "\t" + `d.Size(&s.HeadTokens, schema.Row{Key: "head_tokens", Value: 64, Help: "prompt ` + "`tokens`" + ` that are computed first", After: "startup-time"})`},
		}, "settings head_tokens", "--head-tokens"},

		"a key of a file": {1, []edit{
			{"replay/engines/faults.go", "type Faults struct {", "\tRuns int `json:\",omitempty\" yaml:\"runs\" is:\"1..8\"`"},
		}, run + ` --faults {"runs":8,"faults":[{"at":"1s","worker":1,"what":"dies","back":"1s"}]} --output json`, `"completed_requests": `},

		"a metric of the report": {2, []edit{
			{"replay/collector/report.go", "PrefixCacheReusedRatio float64", "\tTokensPerRequest float64"},
			{"replay/collector/report.go", "r.OutputTokensPerS = ", "\tr.TokensPerRequest = float64(output) / float64(max(r.Completed, 1))"},
			{"replay/collector/metrics.go", `{Key: "total_input_tokens"`, "\t\t" + `{Key: "output_tokens_per_request", Unit: "tokens", Text: "output tokens by completed requests", at: func(r *Report) any { return &r.TokensPerRequest }},`},
		}, run + " --output json", `"output_tokens_per_request": `},
	}
}

// Each change works if only the files that ARCHITECTURE.md lists are edited. Help, completion, JSON and tables follow
// from the declarations. A short run compiles the edited packages. A long run builds and starts the program.
func TestChangesCostWhatIsSaid(t *testing.T) {
	goTool := optional.Program(t, "go", "version")
	root := optional.Root()
	for name, c := range listChanges() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			replaced := map[string]string{}
			for i := range c.edits {
				c.edits[i].apply(t, root, dir, replaced)
			}
			if len(replaced) > c.files {
				t.Errorf("%d files are edited, at most %d are said", len(replaced), c.files)
			}
			overlay, err := json.Marshal(map[string]any{"Replace": replaced})
			if err != nil {
				t.Fatal(err)
			}
			list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "replay")
			if err := os.WriteFile(list, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			if !long.Enabled() {
				output(t, root, goTool, append([]string{"build", "-overlay", list}, c.packages()...)...)
				return
			}
			if out := output(t, root, goTool, "build", "-overlay", list, "-o", program, "./cmd/replay"); len(out) > 0 {
				t.Logf("%s", out)
			}
			if out := output(t, root, program, strings.Fields(c.line)...); !bytes.Contains(out, []byte(c.want)) {
				t.Errorf("replay %s prints no %s:\n%s", c.line, c.want, out)
			}
		})
	}
}

// packages returns the packages that the change edits, as arguments of the go command.
func (c *change) packages() []string {
	var places []string
	for i := range c.edits {
		places = append(places, "./"+filepath.ToSlash(filepath.Dir(c.edits[i].file)))
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// apply writes the edited file to dir and records its path in replaced, with the path of the original file as the
// key.
func (e *edit) apply(t *testing.T, root, dir string, replaced map[string]string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(e.file))
	text := e.add
	if e.anchor != "" {
		from := path
		if again, ok := replaced[path]; ok {
			from = again
		}
		whole, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		before, after, found := strings.Cut(string(whole), e.anchor)
		rest, below, ends := strings.Cut(after, "\n")
		if !found || !ends {
			t.Fatalf("%s has no line with %q", e.file, e.anchor)
		}
		text = before + e.anchor + rest + "\n" + e.add + "\n" + below
	}
	place := filepath.Join(dir, strings.ReplaceAll(e.file, "/", "_"))
	if err := os.WriteFile(place, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	replaced[path] = place
}

// output runs a program in the root of the checkout and returns what it prints.
func output(t *testing.T, root, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = root
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, &errs)
	}
	return out.Bytes()
}
