package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A change of a stable name fails until the baseline is updated. A change of an unstable name passes.
func TestIncompatibleChangesFail(t *testing.T) {
	if out, err := exec.Command("go", "mod", "download", strings.Replace(apidiff, "/cmd/apidiff", "", 1)).CombinedOutput(); err != nil {
		t.Skipf("skipped: apidiff cannot be downloaded: %v: %s", err, out[:min(len(out), 200)])
	}
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.org/m\n\ngo 1.26\n")
	write("testdata/api/README.md", "")
	var out strings.Builder
	a := api{root: root, module: "example.org/m", packages: []stable{{path: "p", names: []string{"Report", "Run"}}}, out: &out}
	const before = "package p\n\ntype Report struct{ TTFT float64 }\n\nfunc (r *Report) Write() {}\n\nfunc Run(n int) {}\n\nfunc Other() {}\n"

	write("p/p.go", before)
	if err := a.check(); err == nil || !strings.Contains(err.Error(), "must be a baseline") {
		t.Fatalf("without a baseline: %v", err)
	}
	if err := a.update(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, now, want string }{
		{"", "", ""},
		{"TTFT float64", "TTFT, ITL float64", ""},
		{"func Other() {}", "", ""},
		{"func Run(n int) {}", "func Run(n int, seed uint64) {}", "p: Run: changed from func(int) to func(int, uint64)\n"},
		{"TTFT float64", "First float64", "p: Report.TTFT: removed\n"},
		{"func (r *Report) Write() {}", "", "p: (*Report).Write: removed\n"},
	} {
		write("p/p.go", strings.Replace(before, c.old, c.now, 1))
		out.Reset()
		err := a.check()
		if out.String() != c.want {
			t.Errorf("%q for %q: printed %q, want %q", c.now, c.old, &out, c.want)
		}
		if failed := err != nil; failed != (c.want != "") {
			t.Errorf("%q for %q: %v", c.now, c.old, err)
		}
	}
	if err := a.update(); err != nil {
		t.Fatal(err)
	}
	a.out = io.Discard
	if err := a.check(); err != nil {
		t.Errorf("after an update: %v", err)
	}
}

// keep selects the changes of stable names in the output of apidiff.
func TestKeep(t *testing.T) {
	const text = "Incompatible changes:\n- (*Report).Write: removed\n- (*Reporter).Write: removed\n- Report.TTFT: changed from int to float64\n- Pair[T].A: removed\n- Run: removed\n"
	p := stable{names: []string{"Report", "Pair"}}
	want := []string{"(*Report).Write: removed", "Report.TTFT: changed from int to float64", "Pair[T].A: removed"}
	if got := p.keep(text); !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	if got := (&stable{}).keep(text); len(got) != 5 {
		t.Errorf("of a package that is stable as a whole %q, want all 5", got)
	}
}

// docs/api.md has a row for each stable package with its stable names. Each stable package has a baseline, and there
// are no further baselines.
func TestPageListsWhatIsStable(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows, want, files, wantFiles []string
	_, list, _ := strings.Cut(string(page), "### What is stable")
	for line := range strings.Lines(list) {
		if cells := strings.Split(line, " | "); len(cells) == 3 && strings.HasPrefix(line, "| `") {
			rows = append(rows, strings.TrimPrefix(cells[0], "| ")+" | "+cells[1])
		}
	}
	for _, p := range listPackages() {
		names := "everything"
		if len(p.names) > 0 {
			names = "`" + strings.Join(p.names, "`, `") + "`"
		}
		want = append(want, "`"+p.path+"` | "+names)
		wantFiles = append(wantFiles, (&api{}).baseline(&p))
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the rows are\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	files, err = filepath.Glob("../../testdata/api/*")
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = strings.TrimPrefix(filepath.ToSlash(files[i]), "../../")
	}
	slices.Sort(wantFiles)
	if !slices.Equal(files, wantFiles) {
		t.Errorf("baselines are %q, want %q", files, wantFiles)
	}
}

// Every stable name exists in its package.
func TestStableNamesExist(t *testing.T) {
	for _, p := range listPackages() {
		for _, name := range p.names {
			if out, err := exec.Command("go", "doc", module+"/"+p.path, name).CombinedOutput(); err != nil {
				t.Errorf("%s.%s: %s", p.path, name, out)
			}
		}
	}
}

// The program on the page is equal to a tested example.
func TestPageHasTheExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("../../replay/examplestreams_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```go\n")
	spec, _, ok := strings.Cut(rest, "result, err")
	if spec = "\t" + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n\t"); !ok || !strings.Contains(string(examples), spec) {
		t.Errorf("no example has\n%s", spec)
	}
}
