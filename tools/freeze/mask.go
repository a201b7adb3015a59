package main

import (
	"bytes"
	"regexp"
	"slices"
)

// mask replaces a part of the output that differs between two runs of the same program.
type mask struct {
	pattern *regexp.Regexp
	stable  string
}

// listMasks returns all masks. Each mask covers a value that depends on wall time or the build.
func listMasks() []mask {
	return []mask{
		// The wall time of the replay, in tables.
		{regexp.MustCompile(`(?m)^(Wall Time \(ms\): ).*`), "${1}..."},
		// The wall time and the speeds derived from it, in JSON.
		{regexp.MustCompile(`("(?:wall_time_ms|processed_tokens_per_s|processed_output_tokens_per_s)": ?)[^,}\s]*`), "${1}..."},
		// The time of day in the name of the report of the reference's command line.
		{regexp.MustCompile(`replay_report_[0-9_]*\.json`), "replay_report_....json"},
		// Sizes and checksums in the file list of a recorded run, since some files contain a wall time. The files
		// themselves are compared.
		{regexp.MustCompile(`"bytes": \d+,\s*"sha256": "[0-9a-f]*"`), "..."},
		// The directory of the program in messages about a missing page.
		{regexp.MustCompile(`freeze-[0-9]+/(?:old|new)\b`), "..."},
		// Temporary names of files that are renamed when they are complete.
		{regexp.MustCompile(`(/\.[^/\s]+\.)[0-9]+`), "${1}..."},
		// Stack traces, which have addresses and line numbers. The panic message is compared.
		{regexp.MustCompile(`goroutine \d+ \[running\]:\n(?:.+\n\t.+\n)*`), "...\n"},
		// The key of a journal cell, which depends on the bytes of the program.
		{regexp.MustCompile(`(?m)^(\{"key":")[0-9a-f]{64}`), "${1}..."},
		// The version of the build.
		{regexp.MustCompile(`(?m)^(replay )\S+ go1\S*`), "${1}..."},
	}
}

// cleanText replaces the parts of a text that differ between runs.
func cleanText(masks []mask, text []byte) []byte {
	if bytes.IndexByte(text, 0) >= 0 { // binary data is not changed
		return text
	}
	for _, m := range masks {
		text = m.pattern.ReplaceAll(text, []byte(m.stable))
	}
	if bytes.Contains(text, []byte("\n{\"key\":")) { // the cells of a journal are in order of their end
		lines := bytes.SplitAfter(text, []byte("\n"))
		slices.SortFunc(lines, bytes.Compare)
		text = bytes.Join(lines, nil)
	}
	return text
}
