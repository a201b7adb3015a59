package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// result is the result of one run of a command line.
type result struct {
	code           int
	stdout, stderr []byte
	files          map[string][]byte // by path; nil: a directory
	late           bool
}

// outcome contains the results of a command line with both programs.
type outcome struct {
	*command
	old, new *result
}

func (o *outcome) slow() bool { return o.old.late || o.new.late }

func (o *outcome) differs() bool {
	return !o.slow() && len(o.parts()) > 0 || o.old.late != o.new.late && o.new.late
}

// parts returns the names of the differing parts, with the texts of both programs.
func (o *outcome) parts() [][3]string {
	var all [][3]string
	note := func(name string, a, b []byte) {
		if !bytes.Equal(a, b) {
			x, y := trimCommon(string(a), string(b))
			all = append(all, [3]string{name, x, y})
		}
	}
	note("exit code", []byte(strconv.Itoa(o.old.code)), []byte(strconv.Itoa(o.new.code)))
	note("standard output", o.old.stdout, o.new.stdout)
	note("standard error", o.old.stderr, o.new.stderr)
	names := slices.Sorted(maps.Keys(o.old.files))
	for name := range o.new.files {
		if _, ok := o.old.files[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		a, inOld := o.old.files[name]
		b, inNew := o.new.files[name]
		if inOld != inNew {
			all = append(all, [3]string{"file " + name, nameWritten(inOld), nameWritten(inNew)})
			continue
		}
		note("file "+name, a, b)
	}
	return all
}

func nameWritten(there bool) string {
	if there {
		return "written"
	}
	return "not written"
}

// trimCommon removes the common first and last lines of two texts.
func trimCommon(a, b string) (string, string) {
	x, y := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n")
	head := 0
	for head < min(len(x), len(y)) && x[head] == y[head] {
		head++
	}
	x, y = x[head:], y[head:]
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	at := ""
	if head > 0 {
		at = fmt.Sprintf("(from line %d)\n", head+1)
	}
	return at + strings.Join(x, ""), at + strings.Join(y, "")
}

func (o *outcome) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "== %d: replay %s\n", o.index, quoteArgs(o.args))
	for name, text := range o.extra {
		fmt.Fprintf(&b, "-- with %s:\n%s\n", name, text)
	}
	if o.new.late {
		b.WriteString("-- the new program takes too long\n")
	}
	for _, p := range o.parts() {
		fmt.Fprintf(&b, "-- %s, old:\n%s\n-- %s, new:\n%s\n", p[0], quoteBinary(p[1]), p[0], quoteBinary(p[2]))
	}
	return b.String()
}

func quoteBinary(text string) string {
	if strings.ContainsRune(text, 0) {
		return strconv.Quote(text)
	}
	return text
}

// quoteArgs joins arguments with shell quoting.
func quoteArgs(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n'\"{}[]()$&|;<>*?!#~`\\") {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// rig contains the programs and the input files of command lines.
type rig struct {
	dir      string
	template string // template of the working directory of every command line
	programs [2]string
	inputs   []string // paths of files and recorded runs
	masks    []mask
	patience time.Duration
}

// close removes all files.
func (r *rig) close() { _ = os.RemoveAll(r.dir) }

// newRig copies programs and inputs, and records the runs that command lines read.
func newRig(root, before, after string, patience time.Duration) (*rig, error) {
	dir, err := os.MkdirTemp("", "freeze-")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, masks: listMasks(), patience: patience}
	for i, path := range []string{before, after} {
		r.programs[i] = filepath.Join(dir, []string{"old", "new"}[i], "replay")
		if err := copyFile(r.programs[i], path, 0); err != nil {
			r.close()
			return nil, err
		}
	}
	r.template = filepath.Join(dir, "template")
	if err := copyInputs(root, r.template); err != nil {
		r.close()
		return nil, err
	}
	for i, args := range recordedRuns() {
		args = append(args, "--out", "runs/"+string(rune('a'+i)))
		if got := r.run(r.programs[0], r.template, args); got.code != 0 {
			r.close()
			return nil, fmt.Errorf("replay %s: exit code %d: %s", quoteArgs(args), got.code, got.stderr)
		}
	}
	for path := range listFiles(r.template) {
		r.inputs = append(r.inputs, path)
	}
	slices.Sort(r.inputs)
	return r, nil
}

// try reports for each command line whether it succeeds with the old program.
func (r *rig) try(n int, line func(i int) []string) ([]bool, error) {
	works := make([]bool, n)
	var next atomic.Int64
	return works, r.each(func(s *slot) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			works[i] = s.runIn(s.programs[0], &command{args: line(i)}).code == 0
		}
	})
}

// each calls do concurrently on each core, with a separate directory.
func (r *rig) each(do func(s *slot)) error {
	var slots []*slot
	for k := range runtime.GOMAXPROCS(0) {
		s, err := r.newSlot(k)
		if err != nil {
			return err
		}
		slots = append(slots, s)
	}
	var wg sync.WaitGroup
	for _, s := range slots {
		wg.Go(func() { do(s) })
	}
	wg.Wait()
	return nil
}

// slot is a directory in which command lines run one after the other. The old and the new program run in the same
// directory, so that printed paths are equal.
type slot struct {
	*rig
	dir  string
	home map[string]fs.FileInfo // files before the run
}

func (r *rig) newSlot(k int) (*slot, error) {
	s := &slot{rig: r, dir: filepath.Join(r.dir, fmt.Sprintf("slot%d", k))}
	if err := errors.Join(os.RemoveAll(s.dir), os.CopyFS(s.dir, os.DirFS(r.template))); err != nil {
		return nil, err
	}
	s.home = listFiles(s.dir)
	return s, nil
}

// compare runs a command line with both programs.
func (s *slot) compare(c *command) *outcome {
	o := &outcome{command: c}
	o.old = s.runIn(s.programs[0], c)
	o.new = &result{late: o.old.late}
	if !o.old.late {
		o.new = s.runIn(s.programs[1], c)
	}
	return o
}

// runIn runs a command line, reads the files that it has written, and restores the directory.
func (s *slot) runIn(program string, c *command) *result {
	for name, text := range c.extra {
		_ = os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644)
	}
	got := s.run(program, s.dir, c.args)
	got.stdout, got.stderr = cleanText(s.masks, got.stdout), cleanText(s.masks, got.stderr)
	got.files = map[string][]byte{}
	for path, info := range listFiles(s.dir) {
		was, known := s.home[path]
		if known && (info.IsDir() || was.Size() == info.Size() && was.ModTime().Equal(info.ModTime())) {
			continue
		}
		name := string(cleanText(s.masks, []byte(path)))
		got.files[name] = nil
		if !info.IsDir() {
			text, _ := os.ReadFile(filepath.Join(s.dir, path))
			got.files[name] = cleanText(s.masks, text)
		}
	}
	for path, was := range s.home {
		if _, err := os.Stat(filepath.Join(s.dir, path)); err != nil && !was.IsDir() {
			got.files[path+" (removed)"] = nil
		}
	}
	s.restore()
	return got
}

// restore restores the files of the directory.
func (s *slot) restore() {
	now := listFiles(s.dir)
	for path := range now {
		if _, known := s.home[path]; !known {
			_ = os.RemoveAll(filepath.Join(s.dir, path))
		}
	}
	for path, was := range s.home {
		info, there := now[path]
		if was.IsDir() || there && was.Size() == info.Size() && was.ModTime().Equal(info.ModTime()) {
			continue
		}
		at := filepath.Join(s.dir, path)
		_ = copyFile(at, filepath.Join(s.template, path), 0)
		if info, err := os.Stat(at); err == nil {
			s.home[path] = info
		}
	}
}

// run runs a program with a fixed environment.
func (r *rig) run(program, dir string, args []string) *result {
	ctx, cancel := context.WithTimeout(context.Background(), r.patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TZ=UTC", "GOMAXPROCS=1"}
	cmd.WaitDelay = time.Second
	_ = cmd.Run() // the exit code contains the result
	code := -1
	if cmd.ProcessState != nil {
		code = cmd.ProcessState.ExitCode()
	}
	return &result{code: code, stdout: out.Bytes(), stderr: errs.Bytes(), late: ctx.Err() != nil}
}

// listFiles returns the files and directories below a directory.
func listFiles(dir string) map[string]fs.FileInfo {
	all := map[string]fs.FileInfo{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return nil //nolint:nilerr // what cannot be read differs or does not
		}
		if info, err := d.Info(); err == nil {
			name, _ := filepath.Rel(dir, path)
			all[name] = info
		}
		return nil
	})
	return all
}

// copyFile copies a file, or its first rows if most is more than 0.
func copyFile(to, from string, most int) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(in)
	if most > 0 {
		rows := bytes.SplitAfter(text, []byte("\n"))
		text = bytes.Join(rows[:min(len(rows), most)], nil)
	}
	return errors.Join(err, os.WriteFile(to, text, info.Mode().Perm()))
}
