// Package docs runs the commands of README.md and of the pages of docs, and compares their output with the text.
package docs

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/internal/script"
)

var rewrite = flag.Bool("rewrite", false, "put what commands print into the pages")

func TestMain(m *testing.M) {
	os.Exit(clitest.Main(m, map[string]cli.Program{"replay": root.New}))
}

// TestDocs runs each replay command of README.md and the docs pages in a copy of the repository, and compares its
// output with the text. Long commands run only with REPLAY_LONG=1. Files that commands name are from
// ../testdata/files.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: the commands of all pages take minutes under the race detector; go test ./cmd/replay/docs, without -short, runs them")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(here, "..", "..", "..")
	pages, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no documentation: %v", err)
	}
	below, err := filepath.Glob(filepath.Join(top, "docs", "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, below...)
	if readme := filepath.Join(top, "README.md"); exists(readme) {
		pages = append(pages, readme)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(filepath.ToSlash(strings.TrimPrefix(page, top+string(filepath.Separator))), "docs/")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := copyRepository(t, here, top)
			defer func() {
				if *rewrite && !t.Failed() {
					if err := os.WriteFile(page, text, 0o644); err != nil {
						t.Error(err)
					}
				}
			}()
			for _, block := range script.Blocks(string(text)) {
				for _, c := range block.Cases {
					if strings.Contains(c.Command, "python") { // an example that requires Python
						t.Run(fmt.Sprintf("line-%d", c.Line), func(t *testing.T) {
							optional.Python(t)
							text = renew(t, text, c, root.run(t, name, c))
						})
						continue
					}
					text = renew(t, text, c, root.run(t, name, c))
				}
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// repository is a directory like the root of the repository, and the environment of processes in it.
type repository struct {
	dir string
	env []string
}

// copyRepository returns a new directory with copies of the example files and links to everything else in the root
// except ignored files, and an environment with replay on the path.
func copyRepository(t *testing.T, here, top string) repository {
	t.Helper()
	dir := clitest.Copy(t, filepath.Join(here, "..", "testdata", "files"))
	entries, err := os.ReadDir(top)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := os.ReadFile(filepath.Join(top, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	left := strings.Fields(string(ignored))
	for _, e := range entries {
		if slices.Contains(left, "/"+e.Name()+"/") {
			continue
		}
		if err := os.Symlink(filepath.Join(top, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return repository{dir, append(os.Environ(), clitest.PathWith(t, "replay")...)}
}

// run runs one command in the shell if it starts replay or an example, and returns its output; "" if the output
// equals the text.
func (r *repository) run(t *testing.T, page string, c script.Case) string {
	command := strings.ReplaceAll(c.Command, "go run ./cmd/replay", "replay")
	first, _, _ := strings.Cut(command, " ")
	if clitest.IsServed(command) {
		return "" // the tests of that program run it
	}
	if first != "replay" && !strings.Contains(command, "| replay ") && !strings.HasPrefix(command, "go run ./examples/") {
		return ""
	}
	if isLong(command) && (invariant.Enabled || !long.Enabled() && !*rewrite) {
		return "" // with every pass checked it takes minutes; the step "docs" of .ci/run runs it
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = r.dir, r.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%s:%d: $ %s: %v\n%s", page, c.Line, c.Command, err, &errs)
		return ""
	}
	if strings.TrimSpace(c.Output) == "" {
		return ""
	}
	got := clitest.CleanText(out.String())
	if script.Matches(clitest.CleanText(c.Output), got) {
		return ""
	}
	if !*rewrite {
		t.Errorf("%s:%d: $ %s prints\n%s\nand the text shows\n%s", page, c.Line, c.Command, got, c.Output)
	}
	return got
}

// isLong reports whether a command runs dozens of replays, uses large caches, or builds an example.
func isLong(command string) bool {
	return strings.HasPrefix(command, "go run ./examples/") || strings.HasPrefix(command, "replay plan ") || strings.HasPrefix(command, "replay bounds ") || strings.Contains(command, "--repeat ") || strings.Contains(command, "--regret")
}

// renew returns the page with the current output of its commands.
func renew(t *testing.T, page []byte, c script.Case, got string) []byte {
	if !*rewrite || got == "" {
		return page
	}
	shown, ok := script.Renew(c.Output, got)
	before := c.Command[strings.LastIndexByte(c.Command, '\n')+1:] + "\n" + c.Output
	if !ok || strings.Count(string(page), before) != 1 {
		t.Errorf("line %d: $ %s: what it shows of\n%s\nis to be written by hand", c.Line, c.Command, got)
		return page
	}
	return []byte(strings.Replace(string(page), before, strings.TrimSuffix(before, c.Output)+shown, 1))
}
