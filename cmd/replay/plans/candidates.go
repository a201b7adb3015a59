package plans

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/file"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/collector"
)

// checkCandidates rejects a path of --candidates that cannot be written.
func (f *planFlags) checkCandidates() error {
	if f.candidates == "" {
		return nil
	}
	if filepath.Ext(f.candidates) != ".csv" {
		return cli.Usagef("--candidates=%s: must be a name that ends in .csv", f.candidates)
	}
	switch stat, err := file.Stat(f.candidates); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--candidates: %w", err)
	case stat.IsDir():
		return fmt.Errorf("--candidates: %s: is a directory, must be a file", f.candidates)
	case stat.Mode().IsRegular() && !f.files.Overwrites():
		return fmt.Errorf("--candidates: %s: exists, must be a new path unless --overwrite is given", f.candidates)
	}
	return nil
}

// writeCandidates writes a row per choice of settings, if --candidates is set.
func (p *planSheet) writeCandidates() error {
	if p.flags.candidates == "" {
		return nil
	}
	if err := collector.WriteFile(p.flags.candidates, p.makeCandidates().WriteCSV); err != nil {
		return fmt.Errorf("--candidates: %w", err)
	}
	return nil
}

// Outcomes of a candidate.
const (
	recommended = "recommended"
	planned     = "planned"
	foundBest   = "best of its kind"
	leftOut     = "left out"
	cannotRun   = "cannot run"
)

// candidates is a table with a row per choice of settings.
type candidates struct {
	table.Table
	values int // objectives
}

// makeCandidates returns a row per choice of settings: its outcome, and the smallest cluster that was found for it,
// on the part of the workload that was replayed last with it.
func (p *planSheet) makeCandidates() *candidates {
	t := &candidates{values: len(p.shownAnswer().At.Values)}
	t.Columns = []table.Column{{Name: "settings", Setting: true}, {Name: "result"}}
	t.AddNumbers(false, "stretch", "workers", "prefill_workers", "decode_workers", "gpus", "cost_per_hour", "resamples_met")
	for _, v := range p.shownAnswer().At.Values {
		t.AddNumbers(false, strings.ReplaceAll(v.Name, " ", "_")+"_"+v.Unit)
	}
	t.AddColumns("reason")
	seen := map[string]bool{}
	for i := range p.plan.Answers {
		a := &p.plan.Answers[i]
		name := p.variantName(i)
		seen[name] = true
		if a.Refused != nil {
			t.addRow(name, cannotRun, nil, nil, a.Refused.Error())
			continue
		}
		result, m, met := planned, &a.At, any(nil)
		if i == p.plan.Best {
			result = recommended
		}
		if c := a.Confident; c != nil {
			met = float64(c.Met)
			if c.Found {
				m = &c.At
			}
		}
		t.addRow(name, result, &choiceDocument{
			Stretch: 1, Workers: m.Shape.Workers, Prefill: m.Shape.Prefill, Decode: m.Shape.Decode, GPUs: p.plan.GPUs(i, m.Shape), PerHour: p.plan.PerHour(i, m.Shape),
			Objectives: documentsOf(m.Values),
		}, met, m.Missed)
	}
	if p.narrowed != nil {
		t.addSearched(p.narrowed.document(), seen)
	}
	return t
}

// addSearched adds the choices of a search that are not in seen.
func (t *candidates) addSearched(s *searchDocument, seen map[string]bool) {
	for i := range s.Found {
		if c := &s.Found[i]; !seen[c.Settings] {
			t.addRow(c.Settings, foundBest, c, nil, "")
		}
	}
	for i := range s.Left {
		c := &s.Left[i]
		t.addRow(c.Settings, leftOut, c, nil, c.Reason)
	}
	for _, c := range s.Refused {
		t.addRow(c.Settings, cannotRun, nil, nil, c.Reason)
	}
}

// addRow adds a choice of settings with its cluster, nil for none.
func (t *candidates) addRow(settings, result string, d *choiceDocument, met any, reason string) {
	if d == nil {
		d = &choiceDocument{}
	}
	number := func(v float64) any {
		if v == 0 {
			return nil
		}
		return v
	}
	row := []any{settings, result, number(d.Stretch), number(float64(d.Workers)), number(float64(d.Prefill)), number(float64(d.Decode)), number(float64(d.GPUs)), number(d.PerHour), met}
	for i := range t.values {
		var v any
		if i < len(d.Objectives) {
			v = d.Objectives[i].Value
		}
		row = append(row, v)
	}
	var why any
	if reason != "" {
		why = reason
	}
	t.Rows = append(t.Rows, append(row, why))
}

// documentsOf returns values for programs.
func documentsOf(values []plan.Value) []valueDocument {
	all := make([]valueDocument, len(values))
	for i := range values {
		all[i] = valueDocument(values[i])
	}
	return all
}
