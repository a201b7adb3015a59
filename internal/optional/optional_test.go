package optional

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// skipper records the reason of a skip.
type skipper struct {
	*testing.T
	reason string
}

func (s *skipper) Skipf(format string, args ...any) { s.reason = fmt.Sprintf(format, args...) }

// TestProgramIsTried installs programs that fail and checks that a test which
// requires one is skipped with a line that names it.
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
		want []string // parts of the reason; none: no skip
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

// TestDataFolder checks that REPLAY_DATA names the folder, from the root of the
// checkout if it is relative, and that missing data is a skip that names it.
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
	t.Chdir(dir) // no checkout around it
	if _, err := FindData("nothing"); err == nil || !strings.Contains(err.Error(), variable) {
		t.Errorf("error %v does not name %s", err, variable)
	}
}
