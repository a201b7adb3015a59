package runs

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
)

// AssumptionsOf returns the assumptions of a report in the order of its keys. AssumptionsOf returns nil for a report
// that repeats the results of the reference.
func AssumptionsOf(report *collector.Report) []engines.Assumption {
	fields, _ := report.Get(collector.AssumptionsKey).Value().([]collector.Field)
	var all []engines.Assumption
	for _, f := range fields {
		all = append(all, engines.Assumption{Key: f.Key, Text: fmt.Sprint(f.Value())})
	}
	return all
}

// AssumptionsByKey returns the texts of assumptions by key, for JSON.
func AssumptionsByKey(all []engines.Assumption) map[string]string {
	texts := make(map[string]string, len(all))
	for _, a := range all {
		texts[a.Key] = a.Text
	}
	return texts
}

// Assumed has the assumptions of a replay in a table of several replays.
type Assumed struct {
	Name string // name of the replay in the table
	All  []engines.Assumption
}

// mostNamed is the maximum number of replays that the text of an assumption lists.
const mostNamed = 12

// MergeAssumptions merges the assumptions of several replays. An assumption that is equal in all replays has its
// text. Different texts for a key are separate assumptions that start with word and the names of their replays.
func MergeAssumptions(word string, replays []Assumed) []engines.Assumption {
	var keys []string
	texts, with := map[string][]string{}, map[string][][]string{} // texts by key, and the names of the replays with each text
	for _, r := range replays {
		for _, a := range r.All {
			if texts[a.Key] == nil {
				keys = append(keys, a.Key)
			}
			k := slices.Index(texts[a.Key], a.Text)
			if k < 0 {
				k = len(texts[a.Key])
				texts[a.Key], with[a.Key] = append(texts[a.Key], a.Text), append(with[a.Key], nil)
			}
			with[a.Key][k] = append(with[a.Key][k], r.Name)
		}
	}
	var all []engines.Assumption
	for _, key := range keys {
		for k, text := range texts[key] {
			if names := with[key][k]; len(names) < len(replays) {
				listed := strings.Join(names[:min(len(names), mostNamed)], ", ")
				if more := len(names) - mostNamed; more > 0 {
					listed += fmt.Sprintf(" and %d more", more)
				}
				text = word + listed + ": " + text
			}
			all = append(all, engines.Assumption{Key: key, Text: text})
		}
	}
	return all
}

// AssumptionLines returns assumptions as wrapped lines of text.
func AssumptionLines(all []engines.Assumption) (lines []string) {
	for i, a := range all {
		head := [...]string{"Assumes:", "        "}[min(i, 1)]
		line := fmt.Sprintf("%s %s: %s", head, strings.ReplaceAll(a.Key, "_", " "), a.Text)
		lines = append(lines, terminal.WrapLine(line, len(head)+3))
	}
	return lines
}

// PrintAssumptions prints assumptions as lines of text.
func PrintAssumptions(w io.Writer, all []engines.Assumption) error {
	for _, line := range AssumptionLines(all) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// WriteAssumptionsMarkdown writes assumptions as a Markdown list. Without assumptions WriteAssumptionsMarkdown writes
// nothing.
func WriteAssumptionsMarkdown(w io.Writer, all []engines.Assumption) error {
	if len(all) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("\nAssumes:\n\n")
	for _, a := range all {
		b.WriteString(terminal.WrapLine(fmt.Sprintf("- %s: %s", strings.ReplaceAll(a.Key, "_", " "), a.Text), 2) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
