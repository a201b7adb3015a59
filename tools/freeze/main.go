// Command freeze runs the same command lines with two builds of replay. The command compares standard output,
// standard error, exit codes and every byte of the written files. A change without new behaviour must show 0
// differences.
//
//	go run ./tools/freeze -old OLD -new NEW -n 5000
//	go run ./tools/freeze -old OLD -new NEW -seed 7 -only 1234    one command line, as a difference prints it
//
// The command lines are drawn from the transcripts and documents of the checkout and from all flags of the program
// (draw.go, values.go). New flags are drawn automatically. Read main.go, then draw.go, then run.go.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/optional"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the flags.
type settings struct {
	before, after string // the two programs
	n, only       int
	seed          uint64
	show          int
	verbose       bool
	patience      time.Duration
}

func (s *settings) bindFlags(fs *flag.FlagSet) {
	fs.StringVar(&s.before, "old", "", "program before the change")
	fs.StringVar(&s.after, "new", "", "program after it")
	fs.IntVar(&s.n, "n", 5000, "number of command lines")
	fs.Uint64Var(&s.seed, "seed", 1, "seed of the command lines")
	fs.IntVar(&s.only, "only", -1, "run command line `i` of the seed alone")
	fs.IntVar(&s.show, "show", 5, "differences to print in full")
	fs.BoolVar(&s.verbose, "v", false, "print every command line, its exit code and its errors")
	fs.DurationVar(&s.patience, "patience", 20*time.Second, "time a command line may take")
}

// leastShare is the minimum share of command lines that must succeed. Rejected command lines test little.
const leastShare = 0.5

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("freeze", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var s settings
	s.bindFlags(fs)
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if s.before == "" || s.after == "" {
		fmt.Fprintln(stderr, "freeze: -old and -new are required")
		return 2
	}
	tally, err := s.compareAll(stdout)
	if err != nil {
		fmt.Fprintln(stderr, "freeze:", err)
		return 2
	}
	fmt.Fprint(stdout, tally)
	if s.only < 0 && float64(tally.sum.succeeded) < leastShare*float64(tally.sum.run) {
		fmt.Fprintf(stdout, "%d of %d command lines succeed: at least half must\n", tally.sum.succeeded, tally.sum.run)
		return 1
	}
	if tally.sum.differ > 0 {
		return 1
	}
	return 0
}

// compareAll draws the command lines, runs them on all cores and prints the first differences.
func (s *settings) compareAll(stdout io.Writer) (*tally, error) {
	rig, err := newRig(optional.Root(), s.before, s.after, s.patience)
	if err != nil {
		return nil, err
	}
	defer rig.close()
	lines, err := collectCorpus(optional.Root())
	if err != nil {
		return nil, err
	}
	drawer, err := newDrawer(s.seed, listVerbs(), lines, rig)
	if err != nil {
		return nil, err
	}
	work, done, failed := make(chan *command), make(chan *outcome), make(chan error, 1)
	go func() {
		defer close(work)
		for i := range s.n {
			if c := drawer.draw(i); s.only < 0 || s.only == i {
				work <- c
			}
		}
	}()
	go func() {
		defer close(done)
		failed <- rig.each(func(slot *slot) {
			for c := range work {
				done <- slot.compare(c)
			}
		})
	}()
	t := &tally{verbs: map[string]*counts{}}
	for o := range done {
		t.add(o)
		if s.verbose {
			fmt.Fprintf(stdout, "%d: replay %s\n  exit code %d: %.200s\n", o.index, quoteArgs(o.args), o.old.code, bytes.TrimSpace(o.old.stderr))
		}
		if o.differs() && t.sum.differ <= s.show {
			fmt.Fprintf(stdout, "%s\n  go run ./tools/freeze -old %s -new %s -seed %d -n %d -only %d\n\n", o, s.before, s.after, s.seed, s.n, o.index)
		}
	}
	t.drawn, t.missing = drawer.coverage()
	return t, <-failed
}

// mostNamed is the maximum number of flags without a command line that are printed.
const mostNamed = 100

// counts contains the numbers of command lines of one verb.
type counts struct{ run, succeeded, slow, differ int }

// tally counts command lines by verb.
type tally struct {
	verbs   map[string]*counts
	sum     counts
	drawn   string   // the number of drawn flags, as text
	missing []string // flags that were not drawn
}

func (t *tally) add(o *outcome) {
	if t.verbs[o.verb] == nil {
		t.verbs[o.verb] = &counts{}
	}
	for _, c := range []*counts{t.verbs[o.verb], &t.sum} {
		c.run++
		c.succeeded += countIf(o.old.code == 0)
		c.slow += countIf(o.slow())
		c.differ += countIf(o.differs())
	}
}

func countIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (t *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s %8s %9s %8s %11s\n", "verb", "commands", "succeeded", "too slow", "differences")
	line := func(name string, c *counts) {
		fmt.Fprintf(&b, "%-24s %8d %9d %8d %11d\n", name, c.run, c.succeeded, c.slow, c.differ)
	}
	for _, verb := range slices.Sorted(maps.Keys(t.verbs)) {
		line(verb, t.verbs[verb])
	}
	line("all", &t.sum)
	fmt.Fprintf(&b, "flags drawn: %s\n", t.drawn)
	if len(t.missing) > 0 {
		fmt.Fprintf(&b, "flags not drawn: %s\n", strings.Join(t.missing[:min(len(t.missing), mostNamed)], ", "))
	}
	return b.String()
}
