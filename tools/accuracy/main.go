// Command accuracy replays the requests of measured servers. The command prints the errors of data sheets and of
// calibrated profiles.
//
//	go run ./tools/accuracy [-data DIR] [-write docs/accuracy.md]
//	go run ./tools/accuracy -turns turns.jsonl -in-flight 16 -hardware 'gb300/kimi-k2.5?tp=4' -page 256
//
// With -write, the rows replace the rows of internal/accuracy, which the program quotes. The tables replace the
// tables between the marks of a document.
//
// Read main.go, servers.go, then formats.go, replay.go, fits.go, joint.go, noise.go and turns.go. The exit code is 3
// if a bound is missed. The bounds are mean TPOT within 15 % and KV tokens within 5 %. The bounds apply to data
// sheets and measured operators, on the servers that are not marked as unbounded.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Bounds of relative errors.
const (
	tpotBound = 0.15
	kvBound   = 0.05
)

func main() {
	data := flag.String("data", "", "directory of measured runs; empty: the optional data")
	write := flag.String("write", "", "document with the tables to replace")
	var own turns
	own.bindFlags(flag.CommandLine)
	flag.Parse()
	if own.path != "" {
		if err := own.judge(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "accuracy:", err)
			os.Exit(1)
		}
		return
	}
	if *data == "" {
		found, err := optional.FindData("measured")
		if err != nil {
			fmt.Printf("accuracy: skipped: %v\n", err)
			return
		}
		*data = filepath.Dir(found)
	}
	missed, err := run(os.Stdout, *data, *write)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	case missed > 0:
		fmt.Fprintf(os.Stderr, "accuracy: %d values are out of bounds\n", missed)
		os.Exit(3)
	}
}

// run prints the tables, and writes them into a document if one is given. run returns the number of values out of
// bounds.
func run(out io.Writer, data, document string) (missed int, err error) {
	dir, err := os.MkdirTemp("", "accuracy")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	servers := listServers()
	for _, s := range servers {
		if s.requests, err = s.read(data); err != nil {
			return 0, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	all, err := accuracy.Load() // includes the published servers of tools/judge
	if err != nil {
		return 0, err
	}
	if all.Sheets, missed, err = judgeSheets(servers, dir); err != nil {
		return missed, err
	}
	fmt.Fprintln(out, all.SheetsTable())
	more := 0
	if all.Operators, more, err = judgeOperators(servers, dir); err != nil {
		return missed, err
	}
	missed += more
	fmt.Fprintln(out, all.OperatorsTable())
	if all.Fits, err = judgeFits(context.Background(), servers, data, dir); err != nil {
		return missed, err
	}
	fmt.Fprint(out, all.FitsTable())
	if document == "" {
		return missed, nil
	}
	if err := all.Write(); err != nil {
		return missed, err
	}
	return missed, accuracy.ReplaceTables(document, all.PageTables())
}

// judgeSheets returns the rows of data sheets and the number of their values out of bounds.
func judgeSheets(servers []*server, dir string) (rows []accuracy.Sheet, missed int, err error) {
	for _, s := range servers {
		row, n, err := s.judgeSheet(dir)
		if err != nil {
			return nil, missed, fmt.Errorf("%s: %w", s.name, err)
		}
		missed += n
		rows = append(rows, row)
	}
	return rows, missed, nil
}

// judgeOperators returns the rows of servers with measured operators, and the number of their values out of bounds.
func judgeOperators(servers []*server, dir string) (rows []accuracy.Sheet, missed int, err error) {
	for _, s := range servers {
		if s.operators == "" {
			continue
		}
		row := s.newRow()
		got, err := s.replay(s.byOperators(), ownRules, dir)
		if err != nil {
			return nil, missed, fmt.Errorf("%s: %w", s.name, err)
		}
		measured := s.measure()
		if !s.unbounded {
			missed += countBeyond(got.tpot.mean/measured.tpot.mean-1, tpotBound)
		}
		got.fillRow(&row, measured)
		rows = append(rows, row)
	}
	return rows, missed, nil
}

// newRow returns a row of the server without errors.
func (s *server) newRow() accuracy.Sheet {
	row := accuracy.Sheet{Run: s.name, Class: accuracy.Other, Queue: s.overload}
	if s.engine == vllmEngine && s.pods > 0 && !strings.Contains(s.hardware, "tp=") {
		row.Class = accuracy.DenseOnOneGPU
	}
	return row
}

// fillRow sets the measured times and the errors of the simulated times got.
func (got *metrics) fillRow(row *accuracy.Sheet, measured metrics) {
	row.TPOTMS, row.TPOT = roundTo(measured.tpot.mean, 1), got.tpot.off(&measured.tpot)
	row.TTFTMS, row.TTFT = roundTo(measured.ttft.mean, 0), got.ttft.off(&measured.ttft)
	row.E2EMean = toPercent(got.e2e.mean/measured.e2e.mean - 1)
	if measured.itl.mean > 0 {
		off := got.itl.off(&measured.itl)
		row.ITLMS, row.ITL = roundTo(measured.itl.mean, 1), &off
	}
}

// judgeSheet returns the row of the server and the number of its values out of bounds.
func (s *server) judgeSheet(dir string) (row accuracy.Sheet, missed int, err error) {
	_, budget, err := s.fit()
	if err != nil {
		return row, 0, err
	}
	row = s.newRow()
	if row.KVTokens = s.kvTokens; s.kvTokens > 0 {
		off := float64(budget.Tokens)/float64(s.kvTokens) - 1
		missed += countBeyond(off, kvBound)
		row.KVOff = toPercent(off)
	}
	measured, sheets := s.measure(), timing.ParseSource("roofline:"+s.hardware)
	got, err := s.replay(sheets, ownRules, dir)
	if err != nil {
		return row, 0, err
	}
	other, err := s.replay(sheets, referenceRules, dir)
	if err != nil {
		return row, 0, err
	}
	reference := toPercent(other.tpot.mean/measured.tpot.mean - 1)
	row.ReferenceTPOT = &reference
	if s.engine == sglangEngine {
		off := toPercent(other.ttft.mean/measured.ttft.mean - 1)
		row.ReferenceTTFT = &off
	}
	if !s.unbounded {
		missed += countBeyond(got.tpot.mean/measured.tpot.mean-1, tpotBound)
	}
	got.fillRow(&row, measured)
	return row, missed, nil
}

// countBeyond returns 1 if a relative error exceeds its bound, else 0.
func countBeyond(off, bound float64) int {
	if math.Abs(off) > bound {
		return 1
	}
	return 0
}

// toPercent returns a relative error in percent, rounded as in the rows.
func toPercent(off float64) float64 { return roundTo(100*off, 1) }

func roundTo(v float64, digits int) float64 {
	return math.Round(v*math.Pow10(digits)) / math.Pow10(digits)
}

// metric contains the statistics of one time, in ms. A quantile of 0 is unknown.
type metric struct{ mean, p50, p99 float64 }

// off returns the error of m relative to the measured value.
func (m *metric) off(measured *metric) accuracy.Off {
	quantile := func(simulated, measured float64) *float64 {
		if measured == 0 {
			return nil
		}
		off := toPercent(simulated/measured - 1)
		return &off
	}
	return accuracy.Off{Mean: toPercent(m.mean/measured.mean - 1), P50: quantile(m.p50, measured.p50), P99: quantile(m.p99, measured.p99)}
}
