package budget

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
)

// Update writes the values of run into the file as the baseline. All other lines of the file, also comments, stay
// unchanged.
func (f *File) Update(run *Run) error {
	if f.Baseline != nil && f.Baseline.From != "" {
		return fmt.Errorf("%s: the baseline is %s, must be values in the file, or no baseline, to write one", f.Path, f.Baseline.From)
	}
	for _, b := range f.Budgets {
		if _, ok := run.Values[b.Key]; !ok {
			return f.refuseKey(&b, run)
		}
	}
	text := replaceEntry(string(f.Text), baselineText(run))
	return collector.WriteFile(f.Path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// baselineText returns the baseline as a YAML entry.
func baselineText(run *Run) string {
	var b bytes.Buffer
	b.WriteString("baseline: # by replay check --update\n")
	if run.Lifecycles != "" {
		fmt.Fprintf(&b, "  lifecycles: %s\n", run.Lifecycles)
	}
	b.WriteString("  values:\n")
	for _, key := range slices.Sorted(maps.Keys(run.Values)) {
		if !collector.IsWall(key) {
			fmt.Fprintf(&b, "    %s: %s\n", key, formatNumber(run.Values[key]))
		}
	}
	return b.String()
}

// formatNumber formats v so that parsing returns the same number. Whole numbers have no decimal point.
func formatNumber(v float64) string {
	return strings.TrimSuffix(string(collector.AppendFloat(nil, v)), ".0")
}

// replaceEntry replaces the entry named baseline of a YAML text, which ends before the next line without indentation.
// If the text has no such entry, replaceEntry appends it.
func replaceEntry(text, entry string) string {
	lines := strings.SplitAfter(text, "\n")
	from := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "baseline:") })
	if from < 0 {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + "\n" + entry
	}
	to := from + 1
	for to < len(lines) && (lines[to] == "" || strings.ContainsRune(" \t", rune(lines[to][0]))) {
		to++
	}
	return strings.Join(lines[:from], "") + entry + strings.Join(lines[to:], "")
}
