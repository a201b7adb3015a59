package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
)

// action is the part of action.yml that GitHub reads.
type action struct {
	Name, Description, Author string
	Branding                  map[string]string
	Inputs                    map[string]struct{ Description, Default string }
	Outputs                   map[string]struct{ Description, Value string }
	Runs                      struct {
		Using string
		Steps []actionStep
	}
}

type actionStep struct {
	Name, ID, If, Uses, Shell, Run string
	Directory                      string `yaml:"working-directory"`
	With, Env                      map[string]string
}

// readAction reads action.yml and rejects keys that GitHub does not know.
func readAction(t *testing.T) *action {
	t.Helper()
	text, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.UnmarshalWithOptions(text, &a, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return &a
}

// fill replaces the expressions of a text with values.
func fill(t *testing.T, text string, values map[string]string) string {
	t.Helper()
	return regexp.MustCompile(`\$\{\{ *([a-z0-9._-]+) *\}\}`).ReplaceAllStringFunc(text, func(expression string) string {
		name := strings.TrimSpace(strings.Trim(expression, "${}"))
		value, ok := values[name]
		if !ok {
			t.Errorf("%s: no such value", expression)
		}
		return value
	})
}

// The action documents its inputs and uses all of them. Inputs reach scripts only through the environment, so that no
// input is executed.
func TestActionIsSound(t *testing.T) {
	a := readAction(t)
	if a.Name == "" || a.Description == "" || a.Runs.Using != "composite" {
		t.Errorf("%+v", a)
	}
	values := map[string]string{"github.action_path": "x"}
	for name, in := range a.Inputs {
		values["inputs."+name] = in.Default
		if in.Description == "" {
			t.Errorf("input %s: no description", name)
		}
	}
	used, ids := "", map[string]string{}
	for i, s := range a.Runs.Steps {
		if (s.Uses == "") == (s.Run == "") || (s.Run != "") != (s.Shell != "") {
			t.Errorf("step %d: want uses, or run with a shell: %+v", i, s)
		}
		if strings.Contains(s.Run, "${{") {
			t.Errorf("step %d: an expression in a script: %s", i, s.Run)
		}
		if s.Uses != "" && !regexp.MustCompile(`^[a-z]+/[a-z-]+@[0-9a-f]{40}$`).MatchString(s.Uses) {
			t.Errorf("step %d: uses %s, want the SHA of a commit", i, s.Uses)
		}
		used += s.If + s.Directory
		for _, m := range []map[string]string{s.With, s.Env} {
			for _, text := range m {
				used += fill(t, text, values) + text
			}
		}
		for _, m := range regexp.MustCompile(`"([a-z-]+)=[^"]*"`).FindAllStringSubmatch(s.Run, -1) {
			values["steps."+s.ID+".outputs."+m[1]] = ""
		}
		ids[s.ID] = s.Name
	}
	for name := range a.Inputs {
		if !strings.Contains(used, "inputs."+name) {
			t.Errorf("input %s is not used", name)
		}
	}
	for name, out := range a.Outputs {
		if fill(t, out.Value, values); out.Description == "" {
			t.Errorf("output %s: no description", name)
		}
	}
	docs, err := os.ReadFile("../../docs/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(a.Inputs)), slices.Collect(maps.Keys(a.Outputs))) {
		if !strings.Contains(string(docs), "| `"+name+"` |") {
			t.Errorf("docs/command-line.md has no row of %s", name)
		}
	}
}

// runner runs the scripts of the action as GitHub's runner does: each in a separate process, with files for the
// outputs of steps.
type runner struct {
	a      *action
	dir    string
	values map[string]string
}

func newRunner(t *testing.T, a *action, dir string, inputs map[string]string) *runner {
	t.Helper()
	r := &runner{a: a, dir: dir, values: map[string]string{"github.action_path": dir}}
	for name, in := range a.Inputs {
		r.values["inputs."+name] = in.Default
	}
	for name, value := range inputs {
		if _, ok := a.Inputs[name]; !ok {
			t.Fatalf("%s: no such input", name)
		}
		r.values["inputs."+name] = value
	}
	t.Setenv("GITHUB_ACTIONS", "true")
	t.Setenv("GITHUB_WORKSPACE", dir)
	for _, name := range []string{"GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, path)
	}
	return r
}

// runStep runs the script with this name, which must end with the given exit code, and returns its output.
func (r *runner) runStep(t *testing.T, name string, want int) string {
	t.Helper()
	i := slices.IndexFunc(r.a.Runs.Steps, func(s actionStep) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("%s: no such step", name)
	}
	s := r.a.Runs.Steps[i]
	for key, value := range s.Env {
		t.Setenv(key, fill(t, value, r.values))
	}
	script := filepath.Join(t.TempDir(), "step.sh")
	if err := os.WriteFile(script, []byte(s.Run), 0o644); err != nil {
		t.Fatal(err)
	}
	out := clitest.Shell(t, filepath.Join(r.dir, fill(t, s.Directory, r.values)), "bash --noprofile --norc -e -o pipefail '"+script+"'", want)
	text, err := os.ReadFile(os.Getenv("GITHUB_OUTPUT"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		r.values["steps."+s.ID+".outputs."+key] = value
	}
	return out
}

// The scripts of the action pass if all budgets are met. If a budget is exceeded they fail, with a table in the
// summary, an annotation, a page and a timeline.
func TestAction(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	a := readAction(t)
	dir := enterFiles(t, here)
	clitest.EnterPath(t, "replay")
	clitest.Shell(t, dir, "replay check budgets.yaml --update", 0)
	budgets, err := os.ReadFile("budgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("service one", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, run string
		code      int
		summary   string
		out       string
	}{
		{"holds", "--workers 2", 0, ": all budgets hold\n", "p99_ttft_ms              +2%      24.19839  24.19839  0       ok"},
		{"exceeded", "--workers 1", 5, ": 3 of 5 budgets exceeded\n", "::error file=service one/exceeded.yaml,line=4,title=budget of p99_ttft_ms exceeded::"},
		{"broken", "--workers x", 2, "", "::error title=replay check::broken.yaml: no run to compare with budgets, exit code 2; the log has the reason"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(string(budgets), "trace requests.jsonl --trace-block-size 64 --workers 2", "trace ../requests.jsonl --trace-block-size 64 "+c.run, 1)
			if err := os.WriteFile("service one/"+c.name+".yaml", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			r := newRunner(t, a, dir, map[string]string{"budgets": c.name + ".yaml", "working-directory": "service one", "output": "out of " + c.name})
			if out := r.runStep(t, "Run and check", 0); !strings.Contains(out, c.out) {
				t.Errorf("no %q in\n%s", c.out, out)
			}
			r.runStep(t, "Pass or fail", c.code)
			summary, err := os.ReadFile(os.Getenv("GITHUB_STEP_SUMMARY"))
			if err != nil || !strings.Contains(string(summary), c.summary) {
				t.Errorf("%v; the summary is\n%s", err, summary)
			}
			if ran := c.code != 2; ran {
				for _, output := range []string{"page", "timeline"} {
					file := filepath.Join("service one", r.values["steps.check.outputs."+output])
					if info, err := os.Stat(file); err != nil || info.Size() < 1000 || info.IsDir() {
						t.Errorf("%s: %v", file, err)
					}
				}
				if !strings.Contains(string(summary), "| `p99_ttft_ms` |") || !strings.Contains(string(summary), "| `mean_tpot_ms` |") {
					t.Errorf("the summary is\n%s", summary)
				}
			}
		})
	}
}
