package records

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/explore"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/html"
	"github.com/replay-llm/replay/report/rundir"
)

const (
	// explorerFile is the file name of the page from which live pages are made.
	explorerFile = "explorer.html"
	// mostLive is the maximum size of a live page, in bytes.
	mostLive = 50_000_000
)

// livePage is a page that replays a recorded run.
type livePage struct {
	wanted   bool
	explorer string // file of the page that it is made of; "": that next to the program
	trace    string // file of the trace; "": where the run found it
}

// write writes the page of the run in a directory to a file.
func (l *livePage) write(ctx context.Context, path, dir string) error {
	page, begin, err := l.readExplorer()
	if err != nil {
		return err
	}
	run, err := rundir.Open(dir)
	if err != nil {
		return err
	}
	recorded, err := explore.NewRecorded(filepath.Clean(dir), run)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if begin.Files, err = l.packFiles(recorded, run); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := recorded.Check(ctx); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	begin.Run, begin.Traces = recorded, []string{recorded.Settings[options.TraceSetting]}
	var made bytes.Buffer
	if err := html.ReplaceData(&made, page, begin); err != nil {
		return err
	}
	if made.Len() > mostLive {
		return fmt.Errorf("%s: its page with the trace in it has %.0f MB, must be at most %d; replay a part of it (--until), or send trace and command",
			dir, float64(made.Len())/1e6, mostLive/1_000_000)
	}
	err = collector.WriteFile(path, func(w io.Writer) error {
		_, err := made.WriteTo(w)
		return err
	})
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// readExplorer reads the page from which a live page is made, and its initial data.
func (l *livePage) readExplorer() ([]byte, *explore.Begin, error) {
	path := l.explorer
	if path == "" {
		var err error
		if path, err = findExplorer(); err != nil {
			return nil, nil, err
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("--live-page: %w", err)
	}
	begin := new(explore.Begin)
	if err := html.ReadStandalone(page, begin); err != nil {
		return nil, nil, fmt.Errorf("--live-page=%s: %w: expected the %s of a release, or that of make wasm", path, err, explorerFile)
	}
	if begin.Layout != html.StandaloneLayout {
		return nil, nil, fmt.Errorf("--live-page=%s: layout is %d, must be %d: one of the version of this program", path, begin.Layout, html.StandaloneLayout)
	}
	return page, begin, nil
}

// findExplorer returns the page that was installed with the program.
func findExplorer() (string, error) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return "", fmt.Errorf("--live: where the program is: %w", err)
	}
	dir := filepath.Dir(program)
	for _, path := range []string{filepath.Join(dir, explorerFile), filepath.Join(dir, "..", "share", "replay", explorerFile)} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", cli.Usagef("--live: no %s in %s, nor in share/replay next to it: put that of the release there, or name one, --live-page FILE; make wasm in a checkout makes bin/%s", explorerFile, dir, explorerFile)
}

// packFiles compresses the trace of a run and the files that its settings name.
func (l *livePage) packFiles(r *explore.Recorded, run *rundir.Run) ([]explore.File, error) {
	if l.trace != "" {
		r.Settings[options.TraceSetting] = l.trace
	}
	trace, err := readTrace(r.Settings[options.TraceSetting], run.Inputs)
	if err != nil {
		return nil, err
	}
	all := []explore.File{trace}
	for _, name := range r.Files() {
		text, err := os.ReadFile(name)
		if err == nil {
			err = explore.CheckFile(name, text)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, packFile(name, text))
	}
	return all, nil
}

// readTrace reads the trace of a run. The trace must be one file, unchanged since the run.
func readTrace(path string, inputs []rundir.Input) (explore.File, error) {
	traces := slices.DeleteFunc(slices.Clone(inputs), func(in rundir.Input) bool { return in.Role != "trace" })
	if len(traces) != 1 {
		return explore.File{}, cli.Usagef("its trace is %d files, expected one", len(traces))
	}
	if path == "-" {
		return explore.File{}, cli.Usagef("its trace was standard input and was not kept: name a file with --live-trace FILE")
	}
	text, err := os.ReadFile(path)
	switch is, hashErr := rundir.HashInput("trace", path, bytes.NewReader(text)); {
	case errors.Is(err, fs.ErrNotExist):
		return explore.File{}, fmt.Errorf("its trace is not at %s any more: name its place with --live-trace FILE", path)
	case err != nil:
		return explore.File{}, err
	case hashErr != nil:
		return explore.File{}, hashErr
	case len(text) > explore.MostText:
		return explore.File{}, fmt.Errorf("its trace has %d MiB, must be at most %d, which a page keeps", len(text)>>20, explore.MostText>>20)
	case is.SHA256 != traces[0].SHA256:
		return explore.File{}, fmt.Errorf("%s is not the trace of the run any more: sha256 %.12s, recorded %.12s", path, is.SHA256, traces[0].SHA256)
	}
	return packFile(path, text), nil
}

// packFile returns a file in the form of pages.
func packFile(name string, text []byte) explore.File {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
	z.Write(text)                                              // writes to a buffer do not fail
	z.Close()
	return explore.File{Name: name, Packed: packed.Bytes()}
}

// check rejects flags that are incompatible.
func (l *livePage) check(path string, dirs []string) error {
	switch {
	case !l.wanted && l.trace != "":
		return cli.Usagef("--live-trace requires --live")
	case !l.wanted && l.explorer != "":
		return cli.Usagef("--live-page requires --live")
	case l.wanted && path == "":
		return cli.Usagef("--live requires --html FILE, which is the page")
	case l.wanted && len(dirs) != 1:
		return cli.Usagef("--live: %s: %d runs, must be one; its page overlays other runs", strings.Join(dirs, " "), len(dirs))
	}
	return nil
}
