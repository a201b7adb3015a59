package measured

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// tableNames returns the possible file names of a table of BLIS TraceV2.
func tableNames() []string { return []string{"trace_data.csv", "trace_data.csv.gz"} }

// tableRow is a row of a TraceV2 table. The cells of a tableRow are not checked yet.
type tableRow struct {
	columns map[string]int
	cells   []string
}

func (r *tableRow) text(name string) string {
	if i, ok := r.columns[name]; ok {
		return r.cells[i]
	}
	return ""
}

// number returns a whole number, 0 for an empty cell or an absent column.
func (r *tableRow) number(name string) (int64, error) {
	text := r.text(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %q, must be a whole number", name, excerpt.Cut(text))
	}
	return n, nil
}

// traceTable holds the content of a TraceV2 table.
type traceTable struct {
	requests []Request
	shapes   []prefixShape // by index of the request
	failed   int
	least    int64   // number of the first request; -1: requests have no numbers
	begin    float64 // s from the start of the workload to the first request
}

// prefixShape holds the columns of a row about the prefix of its prompt.
type prefixShape struct {
	group  string
	shared int // tokens by the client's count
	excess int // additional tokens in the server's count
}

// readTraceV2 reads the table of a TraceV2 directory.
func readTraceV2(dir string) (*traceTable, error) {
	var path string
	for _, name := range tableNames() {
		if path = filepath.Join(dir, name); isFile(path) {
			break
		}
	}
	f, err := scan.OpenPacked(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows := csv.NewReader(f)
	rows.ReuseRecord = true
	t := &traceTable{least: math.MaxInt64, begin: math.Inf(1)}
	head, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w, must be a line of columns", path, err)
	}
	row := tableRow{columns: map[string]int{}}
	for i, name := range head {
		row.columns[name] = i
	}
	for _, name := range []string{"output_tokens", "send_time_us", "first_chunk_time_us", "last_chunk_time_us"} {
		if _, ok := row.columns[name]; !ok {
			return nil, fmt.Errorf("%s: no column %s, must be a TraceV2 table of requests that were served", path, name)
		}
	}
	for {
		if row.cells, err = rows.Read(); errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = t.addRow(&row)
		}
		if err != nil {
			line, _ := rows.FieldPos(0)
			return nil, fmt.Errorf("%s:%d: %w", path, line, err)
		}
	}
	_, err = checkCount(path, t.requests)
	return t, err
}

// addRow adds a request unless it failed.
func (t *traceTable) addRow(row *tableRow) error {
	var n [8]int64
	for i, name := range []string{
		"output_tokens", "send_time_us", "first_chunk_time_us", "last_chunk_time_us", "server_input_tokens", "input_tokens", "prefix_length", "arrival_time_us",
	} {
		var err error
		if n[i], err = row.number(name); err != nil {
			return err
		}
	}
	output, send, first, last, input := n[0], n[1], n[2], n[3], n[4]
	if number, err := strconv.ParseInt(row.text("request_id"), 10, 64); err != nil {
		t.least = -1
	} else {
		t.least = min(t.least, number)
	}
	t.begin = min(t.begin, float64(n[7])/1e6)
	if status := row.text("status"); status != "" && status != "ok" || output == 0 {
		t.failed++
		return nil
	}
	shape := prefixShape{group: row.text("prefix_group"), shared: int(n[6])}
	if input == 0 {
		input = n[5] + n[6]
	}
	shape.excess = int(input - n[5] - n[6])
	if input < 1 || output < 1 || input > math.MaxInt32 || output > math.MaxInt32 {
		return fmt.Errorf("%d input and %d output tokens, must be at least 1 of each", input, output)
	}
	if !(0 < send && send <= first && first <= last) {
		return fmt.Errorf("sent, first and last chunk at %d, %d and %d us, must be in this order", send, first, last)
	}
	t.shapes = append(t.shapes, shape)
	t.requests = append(t.requests, Request{
		ID: identifier(strings.Clone(row.text("request_id"))), Class: strings.Clone(row.text("slo_class")), Place: len(t.requests), Input: int(input), Output: int(output),
		Arrival: float64(send) / 1e6, First: float64(first) / 1e6, Last: float64(last) / 1e6, Queued: math.NaN(), Scheduled: math.NaN(),
	})
	return nil
}

// fineTokens is the number of tokens per id of prompts that are made from lengths. fineTokens is the smallest block
// size of servers.
const fineTokens = 16

// excesses returns, by group, the number of tokens that the server counts in addition to the client for the prefix.
// The numbers are relative to prompts without a prefix. The result is nil if no group has a prefix.
func (t *traceTable) excesses() map[string]float64 {
	var without []float64
	with := map[string][]float64{}
	for i := range t.shapes {
		if s := &t.shapes[i]; s.group != "" && s.shared > 0 {
			with[s.group] = append(with[s.group], float64(s.excess))
		} else {
			without = append(without, float64(s.excess))
		}
	}
	if len(with) == 0 {
		return nil
	}
	more, usual := map[string]float64{}, 0.0
	if len(without) > 0 {
		usual = MeanOf(without)
	}
	for group, all := range with {
		more[group] = MeanOf(all) - usual
	}
	return more
}

// prompts returns prompts with the common prefixes of groups, nil if there are none.
func (t *traceTable) prompts(path string) *Prompts {
	more := t.excesses()
	if more == nil {
		return nil
	}
	p := &Prompts{BlockTokens: fineTokens, Path: path}
	groups, next := map[string]uint64{}, uint64(1)<<40
	for i := range t.requests {
		shape, input := &t.shapes[i], t.requests[i].Input
		shared := 0
		if shape.group != "" {
			shared = min(int(float64(shape.shared)+more[shape.group]), input)
		}
		if _, ok := groups[shape.group]; !ok {
			groups[shape.group] = uint64(len(groups)+1) << 20
		}
		var ids []uint64
		for from := 0; from < input; from += fineTokens {
			if from+fineTokens <= shared {
				ids = append(ids, groups[shape.group]+uint64(from/fineTokens))
				continue
			}
			ids = append(ids, next)
			next++
		}
		p.IDs, p.Lengths = append(p.IDs, ids), append(p.Lengths, input)
	}
	return p
}

// addLead adds requests before the first one, which represent the warm-up requests that the client left out. The file
// has only the number of warm-up requests. The added requests repeat the first requests of the run, in the time
// before the run.
func (t *traceTable) addLead(count int) int {
	count = min(count, len(t.requests)-1)
	if count < 1 || t.least < int64(count) || !(t.begin > 0) {
		return 0
	}
	order := make([]int, len(t.requests))
	for i := range order {
		order[i] = i
	}
	stable.Sort(order, func(a, b int) int { return compareArrivals(&t.requests[a], &t.requests[b]) })
	zero, end := t.requests[order[0]].Arrival, t.requests[order[count]].Arrival
	for _, i := range order[:count] {
		r := t.requests[i]
		back := t.begin * (end - r.Arrival) / max(end-zero, 1e-9)
		r.Place, r.lead = len(t.requests), true
		r.First, r.Last = r.First-r.Arrival, r.Last-r.Arrival
		r.Arrival = zero - back
		r.First, r.Last = r.First+r.Arrival, r.Last+r.Arrival
		t.requests, t.shapes = append(t.requests, r), append(t.shapes, t.shapes[i])
	}
	return count
}

// readWarmUp returns the number of requests that were left out according to trace_header.yaml, 0 if it has none.
func readWarmUp(path string) (int, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(line, "warm_up_requests:")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%s: warm_up_requests is %q, must be a number of requests", path, excerpt.Cut(strings.TrimSpace(value)))
		}
		return n, nil
	}
	return 0, nil
}

// isFile reports whether path exists.
func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
