package records

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/html"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/report/series"
)

// writePage draws the runs of directories on one page.
func writePage(path string, dirs []string) error {
	var runs []html.Run
	for _, dir := range dirs {
		run, err := openDrawn(dir)
		if err != nil {
			return err
		}
		runs = append(runs, *run)
	}
	page := html.Page{Title: strings.Join(dirs, " | "), Made: time.Now()}
	err := collector.WriteFile(path, func(w io.Writer) error { return html.Write(w, page, runs) })
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// openDrawn reads what a page shows of a run.
func openDrawn(dir string) (*html.Run, error) {
	recorded, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	report, err := recorded.Report()
	if err != nil {
		return nil, err
	}
	explained, err := openExplained(dir)
	if err != nil {
		return nil, err
	}
	over, err := series.ReadFile(filepath.Join(dir, series.FileName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &html.Run{
		Name: filepath.Clean(dir), Facts: factsOf(recorded), Trace: explained.Trace,
		Report: report, Rows: explained.Rows, Series: over, Log: explained.Log,
	}, nil
}

// factsOf returns what a run was made of.
func factsOf(r *rundir.Run) [][2]string {
	all := [][2]string{{"command", "replay " + strings.Join(r.Command, " ")}, {"version", r.Version}, {"seed", fmt.Sprint(r.Seed)}}
	for _, in := range r.Inputs {
		all = append(all, [2]string{in.Role, fmt.Sprintf("%s (%d bytes, sha256 %.12s)", in.Path, in.Bytes, in.SHA256)})
	}
	if r.Partial {
		all = append(all, [2]string{"partial", "ended while requests were left"})
	}
	return append(all, [2]string{"digest", r.Run})
}
