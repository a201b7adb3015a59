package collector_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/replay/collector"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// wantFiles checks that exactly the files of want exist below dir.
func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		got, err := os.ReadFile(path)
		if content, ok := want[name]; !ok || content != string(got) {
			t.Errorf("%s holds %q, want %q (known: %v)", name, got, content, ok)
		}
		seen++
		return err
	})
	if err != nil || seen != len(want) {
		t.Errorf("%d files, want %d, error %v", seen, len(want), err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "r.json")
	for _, content := range []string{"a longer first text", "second"} {
		if err := collector.WriteFile(path, text(content)); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, dir, map[string]string{"a/b/r.json": content})
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm()&0o400 == 0 {
		t.Errorf("mode %v, error %v", st.Mode(), err)
	}
}

func TestWriteFileKeepsModeAndName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("n", 250))
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := collector.WriteFile(path, text("new")); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v, want 0600", st.Mode(), err)
	}
	wantFiles(t, dir, map[string]string{filepath.Base(path): "new"})
}

// TestWriteFileFails checks that the old file stays after any error, and that no part of a new file is left.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	if err := collector.WriteFile(path, text("old")); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err := collector.WriteFile(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half of a ne")
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v, want %v", err, boom)
	}
	for _, bad := range []string{dir, filepath.Join(path, "below", "a file")} {
		if err := collector.WriteFile(bad, text("x")); err == nil {
			t.Errorf("%s was written to", bad)
		}
	}
	wantFiles(t, dir, map[string]string{"r.json": "old"})
}

// TestWriteFileSideBySide checks that many writers in one directory do not interfere.
func TestWriteFileSideBySide(t *testing.T) {
	dir := t.TempDir()
	want := map[string]string{}
	var wg sync.WaitGroup
	for i := range 16 {
		name := fmt.Sprint("r", i)
		content := strings.Repeat(name, 1000)
		want[name] = content
		wg.Go(func() {
			for range 10 {
				if err := collector.WriteFile(filepath.Join(dir, name), text(content)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantFiles(t, dir, want)
}

// TestWriteFileThroughLink checks that a link stays a link and that its target is replaced.
func TestWriteFileThroughLink(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "x"), 0o777), os.WriteFile(real, []byte("old"), 0o666), os.Symlink("real", link)); err != nil {
		t.Fatal(err)
	}
	if err := collector.WriteFile(link, text("new")); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != "real" {
		t.Errorf("the link leads to %q, error %v", to, err)
	}
	wantFiles(t, dir, map[string]string{"real": "new", "link": "new"})
	if err := os.Remove(real); err != nil {
		t.Fatal(err)
	}
	if err := collector.WriteFile(link, text("new")); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("error %v, want one about the link", err)
	}
}

func TestWriteFileToDevice(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	if err := collector.WriteFile("/dev/full", text("x")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v, want no space left", err)
	}
	if err := collector.WriteFile("/dev/null", text("x")); err != nil {
		t.Error(err)
	}
}

func TestWriteFileToPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	got := make(chan string)
	go func() {
		all, err := os.ReadFile(path)
		if err != nil {
			all = []byte(err.Error())
		}
		got <- string(all)
	}()
	if err := collector.WriteFile(path, text("through")); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "through" {
		t.Errorf("read %q, want %q", s, "through")
	}
}

func TestResolvePath(t *testing.T) {
	at := time.Date(2025, 3, 4, 5, 6, 7, 0, time.Local)
	const name = "replay_report_20250304_050607.json"
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, want string }{
		{"", filepath.Join(here, name)},
		{dir, filepath.Join(dir, name)},
		{dir + "/new/", filepath.Join(dir, "new", name)},
		{dir + "/r.json", dir + "/r.json"},
		{"r.json", "r.json"},
	} {
		if got, err := collector.ResolvePath(test.path, at); err != nil || got != test.want {
			t.Errorf("%q: got %q, error %v, want %q", test.path, got, err, test.want)
		}
	}
}
