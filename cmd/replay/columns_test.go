package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/script"
	"github.com/replay-llm/replay/internal/terminal"
)

// allowance is a command with output wider than a terminal, and the reason.
type allowance struct {
	why     string
	command *regexp.Regexp // nil: any
	line    *regexp.Regexp // nil: any
}

func allowances() []allowance {
	match := regexp.MustCompile
	return []allowance{
		{"it was asked for", match(`--wide\b`), nil},
		{"all flags, with what they do beside them", match(`--help-all`), nil},
		{"the table of the reference, to the last digit", match(`--compat dynamo-1\.2|^replay (\S+\.jsonl|--)`), match(`^[┏┃┡└]`)},
		{"JSON, a value in a line", nil, match(`^\s*[{"]`)},
		{"CSV, a row in a line", match(`--output csv`), nil},
		{"a row of a Markdown table, for a page", nil, match(`^\| .* \|$`)},
		{"what GitHub reads, a message in a line", match(`--github`), match(`^::`)},
		{"what is wrong with a row of a trace, in a line as compilers have it", match(`traces validate`), match(`^\S+:\d+: `)},
		{"a file of settings, with remarks beside them", match(`^replay (init|policies [a-z-]+)`), match(`#`)},
	}
}

// isAllowed reports whether a line of a command may be wider than a terminal.
func isAllowed(all []allowance, used []bool, command, line string) bool {
	for i, a := range all {
		if (a.command == nil || a.command.MatchString(command)) && (a.line == nil || a.line.MatchString(line)) {
			used[i] = true
			return true
		}
	}
	return false
}

// Standard output in transcripts and pages fits a terminal, except for the listed commands. TestScripts and TestDocs
// compare this output with the commands.
func TestTranscriptsFitTerminals(t *testing.T) {
	all := allowances()
	used := make([]bool, len(all))
	lines := 0
	check := func(path string, c script.Case) {
		for line := range strings.Lines(c.Output) {
			line = strings.TrimRight(line, "\n")
			lines++
			if strings.HasPrefix(line, "! ") || utf8.RuneCountInString(line) <= terminal.Width || isAllowed(all, used, c.Command, line) {
				continue
			}
			t.Errorf("%s:%d: $ %s\n%s\nis %d columns, want at most %d", path, c.Line, c.Command, line, utf8.RuneCountInString(line), terminal.Width)
		}
	}
	for _, pattern := range []string{"testdata/*.script", "../../live/cmd/replay-live/testdata/*.script", "../../docs/*.md", "../../docs/*/*.md", "../../README.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, want files", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range listCases(t, path, string(text)) {
				check(path, c)
			}
		}
	}
	if lines < 5000 {
		t.Errorf("%d lines, want those of all transcripts", lines)
	}
	for i, a := range all {
		if !used[i] {
			t.Errorf("nothing is wider because of: %s", a.why)
		}
	}
}

// listCases returns the commands of a transcript or of a page.
func listCases(t *testing.T, path, text string) []script.Case {
	if filepath.Ext(path) == ".script" {
		all, err := script.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return all
	}
	var all []script.Case
	for _, b := range script.Blocks(text) {
		all = append(all, b.Cases...)
	}
	return all
}
