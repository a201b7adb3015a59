package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/cli/clitest"
	"github.com/replay-llm/replay/cmd/replay-live/root"
	"github.com/replay-llm/replay/internal/script"
)

var rewrite = flag.Bool("rewrite", false, "put what commands print into the transcripts")

// asProgram makes this test binary the program itself.
const asProgram = clitest.AsProgram

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// run carries out a command line of the program.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Program(root.New).Run(args, stdin, stdout, stderr)
}

// TestScripts runs testdata/*.script in a directory with a trace.
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
			clitest.EnterCopy(t, filepath.Join(here, "..", "replay", "testdata", "files"))
			script.Run(t, path, script.Options{Name: "replay-live", Program: run, Rewrite: *rewrite})
		})
	}
}
