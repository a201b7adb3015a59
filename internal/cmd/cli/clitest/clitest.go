// Package clitest runs the programs in tests. The package starts the test binary as the program, in directories with
// example files.
package clitest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// AsProgram is the environment variable that makes a test binary run as a program.
const AsProgram = "REPLAY_TEST_AS_PROGRAM"

// Main runs the tests and returns their exit code. If AsProgram is set, it runs the program with the name of the
// binary, by default replay.
func Main(m *testing.M, programs map[string]cli.Program) int {
	if os.Getenv(AsProgram) == "" {
		return m.Run()
	}
	program, ok := programs[filepath.Base(os.Args[0])]
	if !ok {
		program = programs["replay"]
	}
	return program.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// EnterPath adds the programs to the PATH of the test.
func EnterPath(t *testing.T, names ...string) {
	t.Helper()
	for _, setting := range PathWith(t, names...) {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
}

// PathWith returns environment settings with which a process finds the programs on its PATH.
func PathWith(t *testing.T, names ...string) []string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, name := range names {
		if err := os.Symlink(binary, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), AsProgram + "=1"}
}

// EnterCopy copies a directory of files to a new directory and changes to it.
func EnterCopy(t *testing.T, files string) string {
	t.Helper()
	dir := Copy(t, files)
	t.Chdir(dir)
	return dir
}

// Copy copies a directory of files to a new directory and returns its path.
func Copy(t *testing.T, files string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(files)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// NewCleaner returns a function that replaces the parts of a line that differ between runs: wall-clock times and
// build information.
func NewCleaner() func(line string) string {
	type part struct {
		pattern *regexp.Regexp
		stable  string
	}
	parts := []part{
		{regexp.MustCompile(`^(Wall Time \(ms\): ).*`), "${1}..."},
		{regexp.MustCompile(`^(  "(wall_time_ms|processed_tokens_per_s|processed_output_tokens_per_s)": )[^,]*`), "${1}..."},
		{regexp.MustCompile(`replay_report_[0-9_]*\.json`), "replay_report_....json"},
		{regexp.MustCompile(`^replay \S+ go1\S*`), "replay ..."},
		{regexp.MustCompile(`^built by: go1.*`), "built by: ..."},
	}
	return func(line string) string {
		for _, p := range parts {
			line = p.pattern.ReplaceAllString(line, p.stable)
		}
		return line
	}
}

// CleanText applies NewCleaner to every line of a text.
func CleanText(text string) string {
	clean := NewCleaner()
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(clean(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

// Shell runs a command line in a shell and returns its standard output. The test fails if the exit code is not want.
func Shell(t *testing.T, dir, line string, want int) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code is checked below
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Fatalf("$ %s: exit code %d, expected %d\n%s%s", line, got, want, &out, &errs)
	}
	return out.String()
}

// IsServed reports whether replay-live runs a command line.
func IsServed(line string) bool {
	words := append(strings.Fields(line), "", "")
	return words[0] == "replay-live" || slices.ContainsFunc(slices.Concat(cli.LiveCommands(), cli.ServerCommands()), func(c cli.LiveCommand) bool {
		return words[0] == "replay" && words[1] == c.Name
	})
}
