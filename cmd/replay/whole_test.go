//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
)

// listed returns the names in a directory.
func listed(t *testing.T, dir string) string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// limited returns a command that runs this program in a directory, in a separate process, after the given shell
// commands.
func limited(dir, line string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command("sh", "-c", line+` exec "$0" "$@"`)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), clitest.AsProgram+"=1")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	return cmd, &errs
}

// If the disk is full, the new file is not written and the previous file stays.
func TestNoRoom(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flag, name string }{
		{"--timeline", "t.json"}, {"--requests", "r.parquet"}, {"--requests", "r.jsonl"}, {"--requests", "r.csv"}, {"--out", "run"},
	} {
		for _, before := range []string{"", "what was there"} {
			if before != "" && c.flag == "--out" {
				continue // another run is replaced in TestReplace of rundir
			}
			dir := t.TempDir()
			want := ""
			if before != "" {
				want = c.name
				if err := os.WriteFile(filepath.Join(dir, c.name), []byte(before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd, errs := limited(dir, "ulimit -f 32;") // 16 or 32 KiB
			cmd.Args = append(cmd.Args, self, "trace", "--input-tokens", "100", "--output-tokens", "20", "--request-count", "3000", "--arrival-interval-ms", "1", c.flag, c.name)
			_ = cmd.Run() // the exit code is checked below
			if code := cmd.ProcessState.ExitCode(); code != cli.ExitRefused || !strings.Contains(errs.String(), c.flag) || strings.Count(errs.String(), "\n") != 1 {
				t.Errorf("%s %s: exit %d: %s", c.flag, c.name, code, errs)
			}
			if got := listed(t, dir); got != want {
				t.Errorf("%s %s leaves %q, want %q", c.flag, c.name, got, want)
			}
			if want != "" {
				if text, err := os.ReadFile(filepath.Join(dir, c.name)); err != nil || string(text) != before {
					t.Errorf("%s %s: %v, %d bytes, want what was there before", c.flag, c.name, err, len(text))
				}
			}
		}
	}
}

// A run that is interrupted while it reads its trace leaves no file.
func TestInterruptedLeavesNothing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd, errs := limited(dir, "")
	cmd.Args = append(cmd.Args, self, "trace", "-", "--out", "run", "--timeline", "t.json", "--requests", "r.csv", "--report-json", "r.json")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := `{"timestamp":0,"input_length":10,"output_length":4,"hash_ids":[1]}` + "\n"
	if _, err := io.WriteString(in, strings.Repeat(line, 1<<20/len(line))); err != nil { // more than a pipe buffers, so that the program is reading
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("exit %d: %s", code, errs)
	}
	if left := listed(t, dir); left != "" {
		t.Errorf("%q left behind", left)
	}
}

// Stdin returns the same bytes for all kinds of readers.
func TestInput(t *testing.T) {
	text := make([]byte, 1<<20)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(text) // does not fail
	for name, in := range map[string]io.Reader{
		"whole": bytes.NewReader(text), "halves": iotest.HalfReader(bytes.NewReader(text)), "error with data": iotest.DataErrReader(bytes.NewReader(text)),
	} {
		got, err := io.ReadAll(cli.NewStdin(t.Context(), in))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %v, %d bytes", name, err, len(got))
		}
	}
	broken := errors.New("broken")
	i := cli.NewStdin(t.Context(), io.MultiReader(bytes.NewReader(text[:10]), iotest.ErrReader(broken)))
	for range 2 {
		if got, err := io.ReadAll(i); !errors.Is(err, broken) || len(got) > 10 {
			t.Errorf("%d bytes and %v, want the error of the input", len(got), err)
		}
	}
}
