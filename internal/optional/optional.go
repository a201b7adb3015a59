// Package optional finds optional data and programs for tests, such as Python. Tests that require them are skipped if
// they are missing.
package optional

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	variable      = "REPLAY_DATA"
	defaultFolder = "../shared" // relative to the root of the checkout
	patience      = time.Minute // timeout for running a program
	maxReason     = 160         // maximum number of bytes of a reason
)

// Test is the part of testing.TB that is required to skip a test.
type Test interface {
	Helper()
	Skipf(format string, args ...any)
	TempDir() string
}

// FindData returns the path of an optional file or folder of data. The environment variable REPLAY_DATA names the
// folder that contains the file or folder. A relative path starts at the root of the checkout. The error names the
// missing file.
func FindData(name string) (string, error) {
	folder, said := os.Getenv(variable), variable+"="+os.Getenv(variable)
	if folder == "" {
		folder, said = defaultFolder, defaultFolder+", and "+variable+" is not set"
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(Root(), folder)
	}
	path := filepath.Join(folder, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("optional data: there is no %s in %s", name, said)
	}
	return path, nil
}

// Root returns the root of the checkout: the nearest parent folder with a go.work file, or the working directory.
func Root() string {
	at, err := os.Getwd()
	for err == nil && at != filepath.Dir(at) {
		if _, missing := os.Stat(filepath.Join(at, "go.work")); missing == nil {
			return at
		}
		at = filepath.Dir(at)
	}
	return "."
}

// Data returns the path that FindData returns, and skips the test if the data are missing.
func Data(t Test, name string) string {
	t.Helper()
	path, err := FindData(name)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	return path
}

// Program returns the path of a program. Program skips the test if the program is missing or fails with the given
// arguments, such as --version.
func Program(t Test, name string, args ...string) string {
	t.Helper()
	path, err := tryProgram(name, "", args...)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	return path
}

// Python returns the path of a Python 3 that can import the modules. Python skips the test if no such Python is
// installed.
func Python(t Test, modules ...string) string {
	t.Helper()
	return Program(t, "python3", "-c", "import "+strings.Join(append([]string{"sys"}, modules...), ", "))
}

// Rust returns the path of a Rust compiler. Rust skips the test if the compiler is missing or cannot compile and link
// a program.
func Rust(t Test) string {
	t.Helper()
	path, err := tryProgram("rustc", "fn main() {}", "-o", filepath.Join(t.TempDir(), "empty"), "-")
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	return path
}

// tryProgram runs a program with an input, and returns the path of the program.
func tryProgram(name, input string, args ...string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.WaitDelay = strings.NewReader(input), time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s %s does not run: %w: %s", name, strings.Join(args, " "), err, firstLine(out))
	}
	return path, nil
}

// firstLine returns the line of an output that gives the reason of a failure. The returned line is the last line of a
// Python traceback, and otherwise the first line.
func firstLine(out []byte) string {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	line := lines[0]
	if bytes.HasPrefix(line, []byte("Traceback")) {
		line = lines[len(lines)-1]
	}
	return string(line[:min(len(line), maxReason)])
}
