// Command judge replays published measurements of servers. The command prints the errors of pass times from measured
// operators.
//
//	go run ./tools/judge [-samples silicon_sample.csv] [-write docs/accuracy.md] [-rows FILE]
//
// The file of samples is part of NVIDIA's aiconfigurator-core. The repository has 60 rows of this file. Without
// -samples, the tool reads the file of the optional data, or these rows. With -write, the rows replace those of
// internal/accuracy, and the tables replace those of a document. -write requires the whole file. With -rows, the
// errors of single servers are written to a CSV file.
//
// Read read.go (a row), filter.go (dropped rows), replay.go (the replay of a row), stats.go, groups.go, parts.go,
// constants.go and frontend.go (fits), rows.go, then main.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/internal/optional"
)

// Files of rows: the whole file of the optional data, and the part of it in the repository.
const (
	wholeFile  = "aiconfigurator/silicon_sample.csv"
	sampleFile = "tools/judge/testdata/silicon_sample.csv"
)

// origin is the name of the source of the rows.
const origin = "silicon_sample.csv of aiconfigurator-core 0.12.0"

func main() {
	samples := flag.String("samples", "", "`file` of measured servers; empty: that of the optional data, or the rows in the repository")
	write := flag.String("write", "", "replace the tables of this `document`")
	rows := flag.String("rows", "", "write each server with its simulated times to this CSV `file`")
	jobs := flag.Int("jobs", runtime.NumCPU(), "replays at once")
	flag.Parse()
	if err := run(os.Stdout, *samples, *write, *rows, *jobs); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

// run prints the tables, and writes them into a document if one is given.
func run(out io.Writer, samples, document, list string, jobs int) error {
	whole := samples != ""
	if !whole {
		if found, err := optional.FindData(wholeFile); err == nil {
			samples, whole = found, true
		} else {
			samples = filepath.Join(optional.Root(), sampleFile)
		}
	}
	rows, err := readFile(samples)
	if err != nil {
		return err
	}
	kept, left := rows, []Reason(nil)
	if whole { // the rows in the repository have already passed the filters
		kept, left = Filter(rows)
	}
	outcomes, err := Replay(context.Background(), kept, jobs)
	if err != nil {
		return err
	}
	if list != "" {
		if err := writeRows(list, outcomes); err != nil {
			return err
		}
	}
	p := judgeOutcomes(outcomes)
	p.Source, p.Rows = origin, len(rows)
	for _, l := range left {
		p.LeftOut = append(p.LeftOut, accuracy.LeftOut(l))
	}
	fmt.Fprintln(out, p.FiltersTable())
	fmt.Fprintln(out, p.GroupsTable())
	fmt.Fprintln(out, p.ClassesTable())
	fmt.Fprintln(out, p.ConstantsTable())
	fmt.Fprint(out, p.FrontEndsTable())
	switch {
	case document == "":
		return nil
	case !whole:
		fmt.Fprintf(out, "\njudge: %s is not written: that requires all rows (-samples, or %s in the optional data)\n", document, wholeFile)
		return nil
	}
	if p.Sample, err = judgeSample(filepath.Join(optional.Root(), sampleFile), jobs); err != nil {
		return err
	}
	all, err := accuracy.Load()
	if err != nil {
		return err
	}
	all.Published = *p
	if err := all.Write(); err != nil {
		return err
	}
	return accuracy.ReplaceTables(document, all.PageTables())
}

// judgeOutcomes returns the errors of outcomes.
func judgeOutcomes(all []Outcome) *accuracy.Published {
	return &accuracy.Published{Groups: groupsOf(all), Classes: classesOf(all), Fits: fitsOf(all), FrontEnds: frontEndsOf(all)}
}

// judgeSample returns the mean error of the rows in the repository, without filtering them.
func judgeSample(path string, jobs int) (s accuracy.SampleError, err error) {
	rows, err := readFile(path)
	if err != nil {
		return s, err
	}
	all, err := Replay(context.Background(), rows, jobs)
	stats := StatsOf(all)
	return accuracy.SampleError{Rows: stats.Rows, Mean: roundTo(100*stats.Mean, 2)}, err
}

func readFile(path string) ([]Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}
