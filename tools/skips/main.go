// Command skips prints the output of `go test -json` in the form of `go test`, and collects the skipped tests with
// their reasons.
//
//	go test -json ./... | go run ./tools/skips -step plain -file skips.tsv
//	go run ./tools/skips -table -file skips.tsv
//
// Each line of the file has a step, a test and a reason, separated by tabs. Skipped steps of .ci/run add lines
// without a test.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

const module = "github.com/replay-llm/replay/"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("skips", flag.ContinueOnError)
	flags.SetOutput(stderr)
	step := flags.String("step", "", "step of .ci/run with the tests to read")
	file := flags.String("file", "", "file of skipped tests")
	table := flags.Bool("table", false, "print the file as a table")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var err error
	if *table {
		err = printTable(*file, stdout)
	} else {
		err = collectReports(stdin, stdout, *step, *file)
	}
	if err != nil {
		fmt.Fprintf(stderr, "skips: %v\n", err)
		return 1
	}
	return 0
}

// event is a line of `go test -json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// collectReports prints the reports of go test, and adds the skipped tests to a file.
func collectReports(in io.Reader, out io.Writer, step, file string) (err error) {
	into, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.Close()) }()
	said := make(map[string]map[string][]string) // output lines by package and test
	lines := bufio.NewReader(in)
	for {
		line, end := lines.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil: // a message of the go command itself
			fmt.Fprintf(out, "%s", line)
		default:
			fmt.Fprint(out, e.print(said))
			if e.Action == "skip" && e.Test != "" {
				fmt.Fprintf(into, "%s\t%s.%s\t%s\n", step, strings.TrimPrefix(e.Package, module), e.Test, findReason(said[e.Package][e.Test]))
			}
			if e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
				delete(said, e.Package)
			}
		}
		if end != nil {
			return nil
		}
	}
}

// print returns the output that go test without -v prints for an event: lines about packages and builds, and the
// output of failed tests. print stores the output of a running test in said.
func (e *event) print(said map[string]map[string][]string) string {
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "" && e.Output != "PASS\n":
		return e.Output
	case e.Action == "output" && e.Test != "":
		if said[e.Package] == nil {
			said[e.Package] = make(map[string][]string)
		}
		said[e.Package][e.Test] = append(said[e.Package][e.Test], e.Output)
	case e.Action == "fail" && e.Test != "":
		return strings.Join(slices.DeleteFunc(said[e.Package][e.Test], isStatus), "")
	}
	return ""
}

// isStatus reports whether a line is about the progress of a test, which only -v prints.
func isStatus(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "=== ") }

// findReason returns the reason of a skip, which is the last line that the test printed.
func findReason(lines []string) string {
	place := regexp.MustCompile(`^[\w./-]+\.go:\d+: `)
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(line)
		if line != "" && !isStatus(line) && !strings.HasPrefix(line, "---") {
			return strings.TrimPrefix(place.ReplaceAllString(line, ""), "skipped: ")
		}
	}
	return "no reason given"
}

// printTable prints the skipped tests of a file with their steps and reasons.
func printTable(file string, out io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	type row struct{ test, reason string }
	steps := make(map[row][]string)
	var rows []row
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(parts) != 3 {
			return fmt.Errorf("%s: %q: must be a step, a test and a reason", file, line)
		}
		r := row{parts[1], parts[2]}
		if steps[r] == nil {
			rows = append(rows, r)
		}
		if !slices.Contains(steps[r], parts[0]) {
			steps[r] = append(steps[r], parts[0])
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.reason, b.reason), cmp.Compare(a.test, b.test)) })
	fmt.Fprintf(out, "== skipped: %d\n", len(rows))
	if len(rows) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "Test\tSteps\tReason")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\n", cmp.Or(r.test, "-"), strings.Join(steps[r], ", "), r.reason)
	}
	return table.Flush()
}
