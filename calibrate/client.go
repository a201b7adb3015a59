package calibrate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// readTimes reads the requests of a run.
func (m *Measured) readTimes(dir string) (err error) {
	if isFile(filepath.Join(dir, recordedName)) {
		m.Client = true
		return m.readRecorded(dir)
	}
	if !slices.ContainsFunc(tableNames(), func(name string) bool { return isFile(filepath.Join(dir, name)) }) {
		m.Requests, m.Client, err = readMeasured(dir)
		var none *noTimesError
		if snapshots, _ := findSnapshots(dir); errors.As(err, &none) && len(snapshots) > 0 && isFile(filepath.Join(dir, tracedName)) {
			m.Client = false
			return m.readLengths(dir)
		}
		return err
	}
	t, err := readTraceV2(dir)
	if err != nil {
		return err
	}
	left, err := readWarmUp(filepath.Join(dir, "trace_header.yaml"))
	if err != nil {
		return err
	}
	m.Lead, m.Failed, m.Client = t.addLead(left), t.failed, true
	m.Requests, m.Prompts = t.requests, t.prompts(dir)
	return nil
}

// readMeasured reads the requests of a run: what the server wrote itself, or
// what a load generator saw of it.
func readMeasured(dir string) (all []Request, client bool, err error) {
	all, err = readRequests(filepath.Join(dir, "requests.jsonl"))
	if !errors.Is(err, fs.ErrNotExist) {
		return all, false, err
	}
	if all, err = readAIPerf(filepath.Join(dir, "profile_export.jsonl")); !errors.Is(err, fs.ErrNotExist) {
		return all, true, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, true, err
	}
	for _, path := range files {
		if filepath.Base(path) == "meta.json" {
			continue
		}
		if all, found, err := readBench(path); found || err != nil {
			return all, true, err
		}
	}
	return nil, true, &noTimesError{dir}
}

// noTimesError reports a directory in which nothing tells when the tokens of requests came.
type noTimesError struct{ dir string }

func (e *noTimesError) Error() string {
	return e.dir + ": no requests.jsonl, no profile_export.jsonl of AIPerf, no trace_data.csv of BLIS, no measured.jsonl of replay drive and no result of vllm bench serve --save-detailed, want one of them, or trace.jsonl and snapshots of the servers' metrics (*.prom)"
}

// bench is the result of vllm bench serve, with a value per request in each list.
type bench struct {
	Inputs  []int       `json:"input_lens"`
	Outputs []int       `json:"output_lens"`
	TTFTs   []float64   `json:"ttfts"` // s
	ITLs    [][]float64 `json:"itls"`  // s
	Starts  []float64   `json:"start_times"`
	Errors  []any       `json:"errors"`
}

// readBench reads a result of vllm bench serve. It reports false when the file
// has no lists of requests.
func readBench(path string) (all []Request, found bool, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, false, err
	}
	var b bench
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	n := len(b.Inputs)
	switch {
	case n == 0:
		return nil, false, nil
	case len(b.Outputs) != n || len(b.TTFTs) != n || len(b.ITLs) != n:
		return nil, true, fmt.Errorf("%s: %d input_lens, %d output_lens, %d ttfts and %d itls, want as many of each", path, n, len(b.Outputs), len(b.TTFTs), len(b.ITLs))
	case len(b.Starts) != n:
		return nil, true, fmt.Errorf("%s: %d start_times for %d requests: without them nobody knows when a request arrived", path, len(b.Starts), n)
	}
	for i := range n {
		if i < len(b.Errors) && b.Errors[i] != nil && b.Errors[i] != "" {
			continue
		}
		if b.Inputs[i] < 1 || b.Outputs[i] < 1 {
			return nil, true, fmt.Errorf("%s: request %d has %d input and %d output tokens, want at least 1", path, i, b.Inputs[i], b.Outputs[i])
		}
		all = append(all, b.request(i))
	}
	all, err = checkCount(path, all)
	return all, true, err
}

// request returns entry i of the lists.
func (b *bench) request(i int) Request {
	r := Request{
		ID: identifier(fmt.Sprint(i)), Place: i, Input: b.Inputs[i], Output: b.Outputs[i],
		Arrival: b.Starts[i], First: b.Starts[i] + b.TTFTs[i], Queued: math.NaN(), Scheduled: math.NaN(), gaps: b.ITLs[i],
	}
	r.Last = r.First
	for _, gap := range b.ITLs[i] {
		r.Last += gap
	}
	return r
}

// record is a line of AIPerf's profile_export.jsonl.
type record struct {
	Metadata struct {
		Start     *float64 `json:"request_start_ns"`
		Phase     string   `json:"benchmark_phase"`
		Cancelled bool     `json:"was_cancelled"`
	} `json:"metadata"`
	Metrics map[string]struct {
		Value any    `json:"value"`
		Unit  string `json:"unit"`
	} `json:"metrics"`
	Error any `json:"error"`
}

// number returns a metric in its unit, NaN when there is none.
func (x *record) number(name string) float64 {
	if v, ok := x.Metrics[name].Value.(float64); ok {
		return v
	}
	return math.NaN()
}

// seconds returns a metric that is a time, in ms unless it says otherwise.
func (x *record) seconds(name string) float64 {
	perSecond := map[string]float64{"ns": 1e9, "us": 1e6, "s": 1, "sec": 1}
	return x.number(name) / cmp.Or(perSecond[x.Metrics[name].Unit], 1e3)
}

func readAIPerf(path string) ([]Request, error) {
	var all []Request
	err := readLines(path, func(line int, text []byte) error {
		var x record
		if len(bytes.TrimSpace(text)) == 0 {
			return nil
		}
		if err := json.Unmarshal(text, &x); err != nil {
			return err
		}
		if x.Error != nil || x.Metadata.Cancelled || x.Metadata.Phase != "" && x.Metadata.Phase != "profiling" {
			return nil
		}
		ttft, latency := x.seconds("time_to_first_token"), x.seconds("request_latency")
		in, out := x.number("input_sequence_length"), x.number("output_sequence_length")
		if x.Metadata.Start == nil || !(ttft >= 0 && latency >= ttft && in >= 1 && out >= 1) {
			return errors.New("want request_start_ns, and time_to_first_token, request_latency, input_sequence_length and output_sequence_length")
		}
		at := *x.Metadata.Start / 1e9
		all = append(all, Request{
			ID: identifier(fmt.Sprint(line)), Place: len(all), Input: int(in), Output: int(out), Arrival: at,
			First: at + ttft, Last: at + latency, Queued: math.NaN(), Scheduled: math.NaN(),
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return checkCount(path, all)
}

// checkCount refuses runs of too few requests.
func checkCount(path string, all []Request) ([]Request, error) {
	if len(all) < fewest {
		return nil, fmt.Errorf("%s: %d requests, want at least %d", path, len(all), fewest)
	}
	return all, nil
}
