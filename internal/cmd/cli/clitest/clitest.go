// Package clitest runs the programs in tests: as processes that are the test
// binary itself, in directories of example files.
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

// AsProgram is the environment variable that makes a test binary a program.
const AsProgram = "REPLAY_TEST_AS_PROGRAM"

// Main returns the exit code of the tests, or of the program that the binary is
// called by if AsProgram is set. By any other name it is the program replay.
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

// EnterPath puts the programs on the path of the test's processes.
func EnterPath(t *testing.T, names ...string) {
	t.Helper()
	for _, setting := range PathWith(t, names...) {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
}

// PathWith returns the settings of the environment of a process that finds the programs on
// its path.
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

// EnterCopy changes to a new directory with copies of the files of a directory.
func EnterCopy(t *testing.T, files string) string {
	t.Helper()
	dir := Copy(t, files)
	t.Chdir(dir)
	return dir
}

// Copy returns a new directory with copies of the files of a directory.
func Copy(t *testing.T, files string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(files)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// NewCleaner returns a function that replaces the parts of a line that differ between runs:
// real time, and the build.
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

// CleanText cleans every line of a text.
func CleanText(text string) string {
	clean := NewCleaner()
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(clean(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

// Shell runs a command line, which must end with the given exit code, and returns its
// standard output.
func Shell(t *testing.T, dir, line string, want int) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code tells
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Fatalf("$ %s: exit code %d, expected %d\n%s%s", line, got, want, &out, &errs)
	}
	return out.String()
}

// IsServed reports whether the program of the served side carries out a command line.
func IsServed(line string) bool {
	words := append(strings.Fields(line), "", "")
	return words[0] == "replay-live" || slices.ContainsFunc(slices.Concat(cli.LiveCommands(), cli.ServerCommands()), func(c cli.LiveCommand) bool {
		return words[0] == "replay" && words[1] == c.Name
	})
}
