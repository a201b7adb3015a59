// Command accuracy replays what measured servers served, and prints how far data sheets and
// calibrated profiles are off.
//
//	go run ./tools/accuracy [-data DIR] [-write docs/accuracy.md]
//	go run ./tools/accuracy -turns turns.jsonl -in-flight 16 -hardware 'gb300/kimi-k2.5?tp=4' -page 256
//
// With -write the tables replace those between the marks of a document. Read main.go,
// servers.go, then formats.go, replay.go, fits.go, joint.go, noise.go and turns.go. It exits with 3 when a bound is
// missed: by data sheets, mean TPOT within 15 % and KV tokens within 5 %, of the servers
// that the bounds are for.
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
	write := flag.String("write", "", "document whose tables are replaced")
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

// run prints the tables, writes them into a document if there is one, and counts what is
// out of bounds.
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
	sheets, missed, err := judgeSheets(servers, dir)
	if err != nil {
		return missed, err
	}
	fmt.Fprintln(out, sheets)
	fits, err := judgeFits(context.Background(), servers, data, dir)
	if err != nil {
		return missed, err
	}
	fmt.Fprint(out, fits)
	if document == "" {
		return missed, nil
	}
	return missed, replaceTables(document, map[string]string{"data sheets": sheets, "fits": fits})
}

// judgeSheets returns the table of data sheets, and how many of its values are out of
// bounds.
func judgeSheets(servers []*server, dir string) (table string, missed int, err error) {
	t := &strings.Builder{}
	fmt.Fprintln(t, "| Run | KV tokens | off | TPOT, ms | off: mean / p50 / p99 | TTFT, ms | off: mean / p50 / p99 | E2E, mean | ITL, ms | off: mean / p50 / p99 | Mean TPOT by the reference's rules |")
	fmt.Fprintln(t, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, s := range servers {
		row, n, err := s.judgeSheet(dir)
		if err != nil {
			return "", missed, fmt.Errorf("%s: %w", s.name, err)
		}
		missed += n
		fmt.Fprintln(t, row)
	}
	return t.String(), missed, nil
}

// judgeSheet returns the server's row, and how many of its values are out of bounds.
func (s *server) judgeSheet(dir string) (row string, missed int, err error) {
	_, budget, err := s.fit()
	if err != nil {
		return "", 0, err
	}
	kv, kvOff := "–", ""
	if s.kvTokens > 0 {
		off := float64(budget.Tokens)/float64(s.kvTokens) - 1
		missed += countBeyond(off, kvBound)
		kv, kvOff = fmt.Sprint(s.kvTokens), formatPercent(off)
	}
	measured, sheets := s.measure(), timing.RooflinePrefix+s.hardware
	got, err := s.replay(sheets, ownRules, dir)
	if err != nil {
		return "", 0, err
	}
	other, err := s.replay(sheets, referenceRules, dir)
	if err != nil {
		return "", 0, err
	}
	reference := formatPercent(other.tpot.mean/measured.tpot.mean - 1)
	if s.engine == sglangEngine {
		reference += ", TTFT " + formatPercent(other.ttft.mean/measured.ttft.mean-1)
	}
	if !s.unbounded {
		missed += countBeyond(got.tpot.mean/measured.tpot.mean-1, tpotBound)
	}
	return fmt.Sprintf("| %s | %s | %s | %.1f | %s | %.0f%s | %s | %s | %s | %s | %s |", s.name, kv, kvOff, measured.tpot.mean, got.tpot.off(&measured.tpot),
		measured.ttft.mean, s.mark(), got.ttft.off(&measured.ttft), formatPercent(got.e2e.mean/measured.e2e.mean-1),
		formatMean(&measured.itl), got.itl.off(&measured.itl), reference), missed, nil
}

// mark returns a note where the time to the first token of a run is mostly a wait.
func (s *server) mark() string {
	if s.overload {
		return " (queue)"
	}
	return ""
}

// countBeyond returns 1 for a relative error beyond its bound.
func countBeyond(off, bound float64) int {
	if math.Abs(off) > bound {
		return 1
	}
	return 0
}

func formatPercent(off float64) string { return fmt.Sprintf("%+.1f %%", 100*off) }

// formatMean returns the mean of what was measured, "" of what was not.
func formatMean(m *metric) string {
	if m.mean == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", m.mean)
}

// metric is a time of requests, in ms. A quantile of 0 is not known.
type metric struct{ mean, p50, p99 float64 }

// off returns how far m is from what was measured: mean / p50 / p99.
func (m *metric) off(measured *metric) string {
	if measured.mean == 0 {
		return ""
	}
	parts := []string{}
	for _, pair := range [][2]float64{{m.mean, measured.mean}, {m.p50, measured.p50}, {m.p99, measured.p99}} {
		if pair[1] == 0 {
			parts = append(parts, "–")
			continue
		}
		parts = append(parts, fmt.Sprintf("%+.1f", 100*(pair[0]/pair[1]-1)))
	}
	return strings.Join(parts, " / ") + " %"
}

// replaceTables puts tables between the marks of a document.
func replaceTables(path string, tables map[string]string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(text)
	for name, table := range tables {
		begin, end := "<!-- "+name+": made by make accuracy -->", "<!-- end of "+name+" -->"
		before, rest, ok := strings.Cut(page, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			return fmt.Errorf("%s: no table between %q and %q", path, begin, end)
		}
		page = before + begin + "\n\n" + table + "\n" + end + after
	}
	return os.WriteFile(path, []byte(page), 0o644)
}
