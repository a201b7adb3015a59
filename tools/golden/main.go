// Command golden replays every case of a directory of reference results. The command compares the reports and, if
// available, the single requests.
//
//	go run ./tools/golden                          the cases of testdata/reference, and those of the optional data
//	go run ./tools/golden -dir testdata/reference  those of one directory
//	go run ./tools/golden -only vllm-4w-kv         some of them
//	go run ./tools/golden -arch arm64              here and on another architecture
//
// Read main.go, then check.go and arch.go. The test in this folder compares the project with testdata/reference.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/tools/stopwatch"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("golden", flag.ContinueOnError)
	fs.SetOutput(stderr)
	results := fs.String("dir", "", "directory of reference results; empty: "+kept+", and those of the optional data")
	only := fs.String("only", "", "run only cases with this in their names")
	binary := fs.String("binary", "", "replay binary; empty: build it")
	arch := fs.String("arch", "", "compare with a build for this architecture, run under an emulator, instead of with the reference")
	plain := fs.Bool("outcomes", false, "print what every case comes to")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	cases, err := loadCases(listResults(*results, stderr), *only)
	if err != nil {
		fmt.Fprintf(stderr, "golden: %v\n", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "golden")
	if err != nil {
		fmt.Fprintf(stderr, "golden: %v\n", err)
		return 1
	}
	defer os.RemoveAll(dir)
	t := tally{out: stdout, counts: make(map[string]*count)}
	ctx := context.Background()
	switch {
	case *plain:
		err = writeOutcomes(ctx, cases, stdout)
	case *arch != "":
		var g *guest
		if g, err = newGuest(*arch, dir); err == nil {
			err = g.compareAll(ctx, cases, []string{"-dir", *results, "-only", *only}, &t)
		}
	default:
		err = t.checkAll(ctx, *binary, dir, cases)
	}
	switch {
	case errors.Is(err, errNoEmulator):
		fmt.Fprintf(stdout, "golden: skipped, %v\n", err)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "golden: %v\n", err)
		return 1
	case *plain:
		return 0
	}
	return t.printCounts()
}

// kept is the directory of reference results in the repository.
const kept = "testdata/reference"

// listResults returns the given directory of reference results, or all such directories if none is given.
func listResults(given string, stderr io.Writer) []string {
	if given != "" {
		return []string{given}
	}
	more, err := optional.FindData("golden")
	if err != nil {
		fmt.Fprintf(stderr, "golden: skipped: %v\n", err)
		return []string{kept}
	}
	return []string{kept, more}
}

// loadCases reads the cases with names that contain only.
func loadCases(dirs []string, only string) (all []reference.Case, err error) {
	for _, dir := range dirs {
		cases, err := reference.Load(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	return slices.DeleteFunc(all, func(c reference.Case) bool { return !strings.Contains(c.Name, only) }), nil
}

// checkAll compares the cases with the reference, both in process and by means of the binary.
func (t *tally) checkAll(ctx context.Context, binary, dir string, cases []reference.Case) error {
	binary, err := stopwatch.Find(ctx, binary, dir)
	if err != nil {
		return err
	}
	for i := range cases {
		c := &cases[i]
		complaints := checkInProcess(ctx, c)
		for _, line := range checkBinary(ctx, binary, dir, c) {
			complaints = append(complaints, "binary: "+line)
		}
		t.addCase(c.Name, c.Outcome == reference.OK, complaints)
	}
	return nil
}

// tally counts cases by family. The cases of a family differ only in their trace.
type tally struct {
	out      io.Writer
	families []string // families in the order of their first cases
	counts   map[string]*count
	total    count
	fused    int // fused operations, which round differently on another architecture
}

type count struct{ cases, compared, differing int }

// addCase counts a case. compared reports whether the case had anything to compare. complaints are the differences.
func (t *tally) addCase(name string, compared bool, complaints []string) {
	family := name
	if at := strings.LastIndexByte(family, '-'); at > 0 {
		family = family[:at]
	}
	if t.counts[family] == nil {
		t.counts[family] = &count{}
		t.families = append(t.families, family)
	}
	for _, n := range []*count{t.counts[family], &t.total} {
		n.cases++
		if compared {
			n.compared++
		}
		if len(complaints) > 0 {
			n.differing++
		}
	}
	const most = 8
	for _, line := range complaints[:min(len(complaints), most)] {
		fmt.Fprintf(t.out, "%s: %s\n", name, line)
	}
	if more := len(complaints) - most; more > 0 {
		fmt.Fprintf(t.out, "%s: and %d more\n", name, more)
	}
}

// printCounts prints the counts and returns the exit code.
func (t *tally) printCounts() int {
	printLine := func(name string, n *count) {
		fmt.Fprintf(t.out, "%-28s cases %3d, compared %3d, differing %d\n", name, n.cases, n.compared, n.differing)
	}
	for _, family := range t.families {
		printLine(family, t.counts[family])
	}
	printLine("total", &t.total)
	if t.total.differing+t.fused > 0 || t.total.cases == 0 {
		return 1
	}
	return 0
}
