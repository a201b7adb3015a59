package optional

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// skipper records the reason of a skipped test.
type skipper struct {
	*testing.T
	reason string
}

func (s *skipper) Skipf(format string, args ...any) { s.reason = fmt.Sprintf(format, args...) }

// TestProgramIsTried installs programs that fail. TestProgramIsTried checks that a test is skipped with a reason that
// names the program.
func TestProgramIsTried(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"works":   "exit 0",
		"fails":   "echo no toolchain; echo second line; exit 1",
		"python3": `case "$*" in *absent*) echo "Traceback (most recent call last):"; echo "ModuleNotFoundError: absent"; exit 1;; esac`,
		"rustc":   `case "$*" in *--version*) exit 0;; esac; echo "error: linker cc not found" >&2; exit 1`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, c := range []struct {
		find func(t Test) string
		path string
		want []string // parts of the reason; empty: the test is not skipped
	}{
		{func(t Test) string { return Program(t, "works", "--version") }, "works", nil},
		{func(t Test) string { return Program(t, "fails", "--version") }, "", []string{"fails --version", "no toolchain"}},
		{func(t Test) string { return Program(t, "program-that-is-missing") }, "", []string{"program-that-is-missing"}},
		{func(t Test) string { return Python(t) }, "python3", nil},
		{func(t Test) string { return Python(t, "absent") }, "", []string{"python3", "ModuleNotFoundError: absent"}},
		{func(t Test) string { return Rust(t) }, "", []string{"rustc", "linker cc not found"}},
	} {
		s := &skipper{T: t}
		path := c.find(s)
		if (s.reason == "") != (c.want == nil) || c.want == nil && path != filepath.Join(bin, c.path) || strings.Contains(s.reason, "\n") {
			t.Errorf("%q, skip %q; want %q, %q", path, s.reason, c.path, c.want)
		}
		for _, part := range c.want {
			if !strings.Contains(s.reason, part) {
				t.Errorf("skip %q does not name %q", s.reason, part)
			}
		}
	}
}

// TestDataFolder checks that REPLAY_DATA sets the folder, relative to the root of the checkout. Missing data skip the
// test with a reason that names them.
func TestDataFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "traces"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(variable, dir)
	s := &skipper{T: t}
	if got := Data(s, "traces"); got != filepath.Join(dir, "traces") || s.reason != "" {
		t.Errorf("%q, skip %q", got, s.reason)
	}
	if Data(s, "golden/cases.json"); !strings.Contains(s.reason, "golden/cases.json") || !strings.Contains(s.reason, dir) {
		t.Errorf("skip %q does not name the file and the folder", s.reason)
	}
	t.Setenv(variable, "internal")
	if got, err := FindData("optional/optional.go"); err != nil || !filepath.IsAbs(got) {
		t.Errorf("%q, %v", got, err)
	}
	t.Setenv(variable, "")
	t.Chdir(dir) // a folder outside of the checkout
	if _, err := FindData("nothing"); err == nil || !strings.Contains(err.Error(), variable) {
		t.Errorf("error %v does not name %s", err, variable)
	}
}
