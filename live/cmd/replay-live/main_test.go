package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
	"github.com/replay-llm/replay/internal/script"
	"github.com/replay-llm/replay/live/cmd/replay-live/root"
)

var rewrite = flag.Bool("rewrite", false, "put what commands print into the transcripts")

// asProgram is the environment variable that makes this test binary run the program.
const asProgram = clitest.AsProgram

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// run runs a command line of the program.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Program(root.New).Run(args, stdin, stdout, stderr)
}

// TestScripts runs the scripts testdata/*.script in a directory with a trace.
func TestScripts(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(here, "testdata", "*.script"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".script"), func(t *testing.T) {
			clitest.EnterCopy(t, filepath.Join(here, "..", "..", "..", "cmd", "replay", "testdata", "files"))
			script.Run(t, path, script.Options{Name: "replay-live", Program: run, Rewrite: *rewrite})
		})
	}
}

// TestDocs runs the commands of this program in the pages of docs, and compares their output with the pages.
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no documentation: %v", err)
	}
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range script.Blocks(string(text)) {
			for _, c := range block.Cases {
				if !clitest.IsServed(c.Command) || strings.TrimSpace(c.Output) == "" || strings.Contains(c.Command, "kv-tail") { // kv-tail needs an engine
					continue
				}
				found++
				if got := clitest.CleanText(printed(t, c.Command)); !script.Matches(clitest.CleanText(c.Output), got) {
					t.Errorf("%s:%d: $ %s prints\n%s\nand the text shows\n%s", page, c.Line, c.Command, got, c.Output)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no page has such a command")
	}
}

// printed returns the output of a command line of the program.
func printed(t *testing.T, line string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(strings.Fields(line)[1:], nil, &out, &errs); code != 0 {
		t.Errorf("$ %s: exit %d: %s", line, code, &errs)
	}
	return out.String()
}
