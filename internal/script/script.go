// Package script runs transcripts. A transcript is a list of commands with the output of each command.
//
// The flag -rewrite of the tests that use this package updates transcripts. Read script.go, then words.go and
// markdown.go (commands in documentation).
//
// The library cockroachdb/datadriven also runs transcripts. With datadriven, 60 of the 340 lines of this package
// would not be needed, because the documentation requires the other 280 lines. In transcripts for datadriven each
// command has two more lines: two transcripts grew from 560 to 697 lines. In rogpeppe/go-internal/testscript the
// output of a command is not below the command.
package script

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// Program runs a command in this process and returns its exit code.
type Program func(args []string, stdin io.Reader, stdout, stderr io.Writer) int

// Options configure how transcripts are run.
type Options struct {
	Name    string // the first word of every command
	Program Program
	Rewrite bool                // write the output of the commands to the file instead of comparing it
	Clean   func(string) string // removes text that differs between runs from a line; nil: no change
}

// Case is a command of a transcript.
type Case struct {
	Line    int    // line number of the command in the file
	Remarks string // lines before the command: empty, or starting with #
	Command string // the command without "$ "
	// Output is what it prints: standard output unchanged, then standard error with "! " before each line, then "exit
	// N" unless N is 0.
	Output string
}

// Parse parses a transcript. A line that starts with "$ " is a command, and a line of a command that ends in \
// continues on the next line. The output ends at the next remark or command.
func Parse(text string) ([]Case, error) {
	var cases []Case
	lines := strings.SplitAfter(text, "\n")
	remarks := ""
	for i := 0; i < len(lines); {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "$ "):
			c := Case{Line: i + 1, Remarks: remarks}
			c.Command, i = parseCommand(lines, i)
			for ; i < len(lines) && !strings.HasPrefix(lines[i], "$ ") && !strings.HasPrefix(lines[i], "#"); i++ {
				c.Output += lines[i]
			}
			c.Output = strings.TrimRight(c.Output, "\n")
			cases = append(cases, c)
			remarks = "\n"
		case strings.TrimSpace(line) == "" || line[0] == '#':
			remarks += line
			i++
		default:
			return nil, fmt.Errorf("line %d: %q, must be a remark or a command", i+1, line)
		}
	}
	return cases, nil
}

// parseCommand returns the command that starts at line i, and the index of the line after it.
func parseCommand(lines []string, i int) (string, int) {
	text := strings.TrimPrefix(lines[i], "$ ")
	for i++; strings.HasSuffix(text, "\\\n") && i < len(lines); i++ {
		text += lines[i]
	}
	return strings.TrimSuffix(text, "\n"), i
}

// Run runs the transcript at path with one subtest per command.
func Run(t *testing.T, path string, o Options) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := Parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s: no command", path)
	}
	var out strings.Builder
	for _, c := range cases {
		got := o.run(t, path, c)
		fmt.Fprintf(&out, "%s$ %s\n", c.Remarks, c.Command)
		if got != "" {
			out.WriteString(got + "\n")
		}
		if got != c.Output && !o.Rewrite {
			t.Errorf("%s:%d: $ %s\n%s", path, c.Line, c.Command, diffTexts(c.Output, got))
		}
	}
	if o.Rewrite {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// run returns the output of c.
func (o Options) run(t *testing.T, path string, c Case) string {
	words, err := Words(c.Command)
	if err != nil {
		t.Fatalf("%s:%d: %v", path, c.Line, err)
	}
	for name, value, ok := strings.Cut(words.Args[0], "="); ok; name, value, ok = strings.Cut(words.Args[0], "=") {
		t.Setenv(name, value)
		defer os.Unsetenv(name)
		words.Args = words.Args[1:]
	}
	if words.Args[0] != o.Name {
		t.Fatalf("%s:%d: %s, expected %s", path, c.Line, words.Args[0], o.Name)
	}
	var stdin io.Reader = strings.NewReader("")
	if words.Stdin != "" {
		f, err := os.Open(words.Stdin)
		if err != nil {
			t.Fatalf("%s:%d: %v", path, c.Line, err)
		}
		defer f.Close()
		stdin = f
	}
	var stdout, stderr bytes.Buffer
	code := o.Program(words.Args[1:], stdin, &stdout, &stderr)
	text := o.clean(stdout.String(), "") + o.clean(stderr.String(), "! ")
	if code != 0 {
		text += fmt.Sprintf("exit %d\n", code)
	}
	return strings.TrimRight(text, "\n")
}

// clean cleans each line of text and adds prefix to it.
func (o Options) clean(text, prefix string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if o.Clean != nil {
			line = o.Clean(line)
		}
		b.WriteString(prefix + line + "\n")
	}
	return b.String()
}

// diffTexts shows the first difference between two outputs.
func diffTexts(want, got string) string {
	a, b := append(strings.Split(want, "\n"), ""), append(strings.Split(got, "\n"), "")
	i := 0
	for i < min(len(a), len(b))-1 && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("line %d of the output:\n got %q\nwant %q\nall of it:\n%s", i+1, b[i], a[i], got)
}
