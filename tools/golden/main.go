// Command golden replays every case of a directory of reference results and
// compares reports and, where they were kept, single requests.
//
//	go run ./tools/golden                          all cases of ../shared/golden
//	go run ./tools/golden -dir testdata/reference  those that come with the project
//	go run ./tools/golden -only vllm-4w-kv         some of them
//	go run ./tools/golden -arch arm64              here and on another architecture
//
// Read main.go, then check.go and arch.go. The test beside them holds the
// project to testdata/reference.
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

	"github.com/replay-llm/replay/tools/golden/reference"
	"github.com/replay-llm/replay/tools/stopwatch"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("golden", flag.ContinueOnError)
	fs.SetOutput(stderr)
	dir := fs.String("dir", "../shared/golden", "directory of reference results")
	only := fs.String("only", "", "run only cases whose name contains this")
	binary := fs.String("binary", "", "replay binary; empty: build it")
	arch := fs.String("arch", "", "compare with a build for this architecture, run under an emulator, instead of with the reference")
	plain := fs.Bool("outcomes", false, "print what every case comes to")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if _, err := os.Stat(*dir); err != nil {
		fmt.Fprintf(stdout, "golden: skipped, there are no reference results at %s\n", *dir)
		return 0
	}
	cases, err := loadCases(*dir, *only)
	if err != nil {
		fmt.Fprintf(stderr, "golden: %v\n", err)
		return 1
	}
	t := tally{out: stdout}
	ctx := context.Background()
	switch {
	case *plain:
		err = writeOutcomes(ctx, cases, stdout)
	case *arch != "":
		err = compareArch(ctx, *arch, cases, []string{"-dir", *dir, "-only", *only}, &t)
	default:
		err = t.checkAll(ctx, *binary, cases)
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

// loadCases reads the cases whose names contain only.
func loadCases(dir, only string) ([]reference.Case, error) {
	cases, err := reference.Load(dir)
	return slices.DeleteFunc(cases, func(c reference.Case) bool { return !strings.Contains(c.Name, only) }), err
}

// checkAll compares the cases with the reference, in process and through the
// binary.
func (t *tally) checkAll(ctx context.Context, binary string, cases []reference.Case) error {
	temporary, err := os.MkdirTemp("", "golden")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if binary, err = stopwatch.Find(ctx, binary, temporary); err != nil {
		return err
	}
	for i := range cases {
		c := &cases[i]
		t.addCase(c, c.Outcome == reference.OK, append(checkInProcess(ctx, c), checkBinary(ctx, binary, temporary, c)...))
	}
	return nil
}

// compareArch compares the cases with those on another architecture.
func compareArch(ctx context.Context, arch string, cases []reference.Case, args []string, t *tally) error {
	temporary, err := os.MkdirTemp("", "golden")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	g, err := newGuest(arch, temporary)
	if err != nil {
		return err
	}
	places, err := g.listFused()
	if err != nil {
		return err
	}
	if err := g.compareCases(ctx, cases, args, t); err != nil {
		return err
	}
	for _, place := range places {
		fmt.Fprintf(t.out, "%s: a product and a sum are rounded once on %s, want float64(a*b) + c\n", place, arch)
		t.fused++
	}
	return nil
}

// tally counts cases by family, in the order of the first of each.
type tally struct {
	out      io.Writer
	families []*family
	total    family
	fused    int // places where another architecture would round otherwise
}

// family is all cases that differ in their trace alone.
type family struct {
	name                       string
	cases, compared, differing int
}

// addCase counts a case, whether it was compared with anything, and what is wrong
// with it.
func (t *tally) addCase(c *reference.Case, compared bool, complaints []string) {
	name := c.Name
	if at := strings.LastIndexByte(name, '-'); at > 0 {
		name = name[:at]
	}
	f := t.findFamily(name)
	for _, f := range []*family{f, &t.total} {
		f.cases++
		if compared {
			f.compared++
		}
		if len(complaints) > 0 {
			f.differing++
		}
	}
	const most = 8
	for _, line := range complaints[:min(len(complaints), most)] {
		fmt.Fprintf(t.out, "%s: %s\n", c.Name, line)
	}
	if more := len(complaints) - most; more > 0 {
		fmt.Fprintf(t.out, "%s: and %d more\n", c.Name, more)
	}
}

func (t *tally) findFamily(name string) *family {
	for _, f := range t.families {
		if f.name == name {
			return f
		}
	}
	t.families = append(t.families, &family{name: name})
	return t.families[len(t.families)-1]
}

// printCounts prints the counts and returns the exit code.
func (t *tally) printCounts() int {
	for _, f := range t.families {
		f.printCounts(t.out)
	}
	t.total.name = "total"
	t.total.printCounts(t.out)
	if t.total.differing+t.fused > 0 || t.total.cases == 0 {
		return 1
	}
	return 0
}

func (f *family) printCounts(out io.Writer) {
	fmt.Fprintf(out, "%-28s cases %3d, compared %3d, differing %d\n", f.name, f.cases, f.compared, f.differing)
}
