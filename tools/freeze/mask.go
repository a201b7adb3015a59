package main

import (
	"bytes"
	"regexp"
	"slices"
)

// mask is a part of the output that differs between two runs of the same program, and its replacement.
type mask struct {
	pattern *regexp.Regexp
	stable  string
}

// listMasks returns all masks. Each names what depends on real time or the build; nothing else is masked anywhere.
func listMasks() []mask {
	return []mask{
		// How long the replay took, in tables.
		{regexp.MustCompile(`(?m)^(Wall Time \(ms\): ).*`), "${1}..."},
		// The same and speeds that follow from it, in documents.
		{regexp.MustCompile(`("(?:wall_time_ms|processed_tokens_per_s|processed_output_tokens_per_s)": ?)[^,}\s]*`), "${1}..."},
		// The name of the report of the reference's command line is the time of day.
		{regexp.MustCompile(`replay_report_[0-9_]*\.json`), "replay_report_....json"},
		// Sizes and sums of files that a recorded run lists: some of the files name a wall time, and all of them are compared.
		{regexp.MustCompile(`"bytes": \d+,\s*"sha256": "[0-9a-f]*"`), "..."},
		// The directory of the program, where a page is looked for.
		{regexp.MustCompile(`freeze-[0-9]+/(?:old|new)\b`), "..."},
		// Files that are renamed when they are complete.
		{regexp.MustCompile(`(/\.[^/\s]+\.)[0-9]+`), "${1}..."},
		// Where a panic came from, by addresses and lines of code; the error itself is compared.
		{regexp.MustCompile(`goroutine \d+ \[running\]:\n(?:.+\n\t.+\n)*`), "...\n"},
		// Cells of a journal are of the program that ran them, by its bytes.
		{regexp.MustCompile(`(?m)^(\{"key":")[0-9a-f]{64}`), "${1}..."},
		// The build.
		{regexp.MustCompile(`(?m)^(replay )\S+ go1\S*`), "${1}..."},
	}
}

// cleanText replaces what differs between runs.
func cleanText(masks []mask, text []byte) []byte {
	if bytes.IndexByte(text, 0) >= 0 { // no text
		return text
	}
	for _, m := range masks {
		text = m.pattern.ReplaceAll(text, []byte(m.stable))
	}
	if bytes.Contains(text, []byte("\n{\"key\":")) { // a journal: cells in the order in which they end
		lines := bytes.SplitAfter(text, []byte("\n"))
		slices.SortFunc(lines, bytes.Compare)
		text = bytes.Join(lines, nil)
	}
	return text
}
