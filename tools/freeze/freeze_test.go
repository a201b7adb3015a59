package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/optional"
)

// newTestRig returns a rig of two shell scripts.
func newTestRig(t *testing.T, before, after string) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{dir: dir, template: filepath.Join(dir, "template"), masks: listMasks(), patience: 10 * time.Second}
	if err := os.MkdirAll(r.template, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.template, "input"), []byte("input\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{before, after} {
		r.programs[i] = filepath.Join(dir, []string{"old", "new"}[i])
		if err := os.WriteFile(r.programs[i], []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// Every kind of difference is found, but different wall times are ignored.
func TestDifferencesAreFound(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		want                []string // expected differences
	}{
		{"nothing", "echo a; echo b >&2; echo c > f", "echo a; echo b >&2; echo c > f", nil},
		{"output", "echo a", "echo b", []string{"standard output"}},
		{"error", "echo a >&2", "echo b >&2", []string{"standard error"}},
		{"exit code", "exit 1", "exit 2", []string{"exit code"}},
		{"file", "echo a > f", "echo b > f", []string{"file f"}},
		{"file in a directory", "mkdir -p d/e; echo a > d/e/f", "mkdir -p d/e; echo ab > d/e/f", []string{"file d/e/f"}},
		{"no file", "echo a > f", "true", []string{"file f"}},
		{"one more file", "true", "echo a > f", []string{"file f"}},
		{"an empty directory", "mkdir d", "true", []string{"file d"}},
		{"an input", "echo a > input", "true", []string{"file input"}},
		{"an input that is gone", "rm input", "true", []string{"file input (removed)"}},
		{"a journal", `printf '{"of":1}\n{"key":"a"}\n{"key":"b"}\n' > j`, `printf '{"of":1}\n{"key":"b"}\n{"key":"a"}\n' > j`, nil},
		{"another journal", `printf '{"of":1}\n{"key":"a"}\n{"key":"b"}\n' > j`, `printf '{"of":1}\n{"key":"b"}\n{"key":"c"}\n' > j`, []string{"file j"}},
		{"a panic", `printf 'goroutine 1 [running]:\nmain.f(0x1)\n\tf.go:1 +0x1\nreplay: x\n'`, `printf 'goroutine 1 [running]:\nmain.f(0x2)\n\tf.go:1 +0x1\nreplay: x\n'`, nil},
		{"real time", "echo 'Wall Time (ms): 1.2'", "echo 'Wall Time (ms): 3.45'", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newTestRig(t, c.before, c.after)
			s, err := r.newSlot(0)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second run uses the directory of the first run
				o := s.compare(&command{})
				var got []string
				for _, p := range o.parts() {
					got = append(got, p[0])
				}
				if !reflect.DeepEqual(got, c.want) || o.differs() != (c.want != nil) {
					t.Fatalf("differs in %q, want %q:\n%s", got, c.want, o)
				}
			}
		})
	}
}

// A timeout with both builds is counted. A timeout with the new build only is a difference.
func TestSlowPrograms(t *testing.T) {
	r := newTestRig(t, "true", "exec sleep 60")
	r.patience = time.Second
	s, err := r.newSlot(0)
	if err != nil {
		t.Fatal(err)
	}
	if o := s.compare(&command{}); !o.differs() || !o.slow() {
		t.Errorf("the new program alone is slow: differs %v, slow %v", o.differs(), o.slow())
	}
	s.programs[0] = s.programs[1]
	if o := s.compare(&command{}); o.differs() || !o.slow() {
		t.Errorf("both are slow: differs %v, slow %v", o.differs(), o.slow())
	}
}

// The same seed draws the same command lines, and another seed draws different ones. The command lines cover all
// verbs and most flags.
func TestDrawingIsDeterministic(t *testing.T) {
	r := newTestRig(t, "true", "true")
	c, err := collectCorpus(optional.Root())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.lines) < 500 || len(c.keys) < 50 {
		t.Fatalf("%d command lines and %d engine arguments in the checkout", len(c.lines), len(c.keys))
	}
	r.inputs = []string{"input"}
	drawAll := func(seed uint64, n int) ([]string, *drawer) {
		d, err := newDrawer(seed, listVerbs(), c, r)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for i := range n {
			all = append(all, quoteArgs(d.draw(i).args))
		}
		return all, d
	}
	a, d := drawAll(1, 2000)
	b, _ := drawAll(1, 2000)
	other, _ := drawAll(2, 2000)
	if !reflect.DeepEqual(a, b) || reflect.DeepEqual(a, other) {
		t.Errorf("seed 1 twice: equal %v; seed 2: equal %v", reflect.DeepEqual(a, b), reflect.DeepEqual(a, other))
	}
	if _, missing := d.coverage(); len(missing) > 20 { // with 2,000 command lines; 5,000 are the default
		t.Errorf("not drawn: %q", missing)
	}
	text := strings.Join(a, "\n")
	for _, want := range []string{"--compat=", "--config=config0.yaml", "--engine-args={", "--prefill-", "--deployment=", "--help-all", "__complete ", "traces convert ", "--digest", "--out="} {
		if !strings.Contains(text, want) {
			t.Errorf("no command line has %s", want)
		}
	}
}

// Lines are split like a shell does. Lines that require a shell are dropped.
func TestSplitWords(t *testing.T) {
	for line, want := range map[string][]string{
		`trace a.jsonl --x 'a b' --y="c d"`: {"trace", "a.jsonl", "--x", "a b", "--y=c d"},
		`trace a | head`:                    {"trace", "a"},
		`trace ''  # remark`:                {"trace", ""},
		`trace $HOME`:                       nil,
		`trace /etc/passwd`:                 nil,
		`trace --out=../x`:                  nil,
	} {
		if got := splitWords(line); !reflect.DeepEqual(got, want) {
			t.Errorf("splitWords(%q) = %q, want %q", line, got, want)
		}
	}
}

// The options -old and -new are required.
func TestUsage(t *testing.T) {
	var out, errs strings.Builder
	if code := run([]string{"-old", "x"}, &out, &errs); code != 2 || !strings.Contains(errs.String(), "-new") {
		t.Errorf("exit code %d: %s", code, &errs)
	}
	if got := changeText(rand.New(rand.NewPCG(1, 1)), "a: 1\n"); got == "" {
		t.Error("a change leaves nothing")
	}
}
