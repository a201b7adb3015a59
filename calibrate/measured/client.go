package measured

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/replay-llm/replay/loadgen/formats/entries"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// readTimes reads the requests of a run from its directory.
func (m *Run) readTimes(dir string) (err error) {
	if err := checkDir(dir); err != nil {
		return err
	}
	if isFile(filepath.Join(dir, recordedName)) {
		m.Client = true
		return m.readRecorded(dir)
	}
	if !slices.ContainsFunc(tableNames(), func(name string) bool { return isFile(filepath.Join(dir, name)) }) {
		err = m.readMeasured(dir)
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

// readMeasured reads the requests of a run from the server's own file or from a file of a load generator.
func (m *Run) readMeasured(dir string) (err error) {
	m.Requests, err = readRequests(filepath.Join(dir, "requests.jsonl"))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.Client = true
	if m.Requests, m.Failed, err = readAIPerf(filepath.Join(dir, "profile_export.jsonl")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range []string{"*.json", "*.json.gz", "*.jsonl", "*.jsonl.gz"} {
		files, err := filepath.Glob(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for _, path := range files {
			if slices.Contains([]string{"meta.json", tracedName}, filepath.Base(path)) {
				continue
			}
			if found, err := m.readGenerated(path); found || err != nil {
				return err
			}
		}
	}
	return &noTimesError{dir}
}

// checkDir returns an error if dir is a file.
func checkDir(dir string) error {
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return fmt.Errorf("%s: is a file, must be the directory of a measured run", dir)
	}
	return nil
}

// findRunInside returns the first subdirectory that holds a run, or "".
func findRunInside(dir string) string {
	for _, name := range append(tableNames(), recordedName, "requests.jsonl", "profile_export.jsonl") {
		if found, _ := filepath.Glob(filepath.Join(dir, "*", name)); len(found) > 0 {
			return filepath.Dir(found[0])
		}
	}
	return ""
}

// noTimesError reports a directory without times of tokens.
type noTimesError struct{ dir string }

func (e *noTimesError) Error() string {
	if run := findRunInside(e.dir); run != "" {
		return fmt.Sprintf("%s: holds directories of runs, must have one of them, such as %s", e.dir, run)
	}
	return e.dir + ": no requests.jsonl, no profile_export.jsonl of AIPerf, no trace_data.csv of BLIS, no measured.jsonl of replay drive and no result of vllm bench serve --save-detailed, sglang.bench_serving --output-details or GuideLLM, nor spans, must be one of them, or trace.jsonl and snapshots of the servers' metrics (*.prom)"
}

// readAIPerf reads the records of a run of AIPerf. readAIPerf counts the failed and cancelled requests.
func readAIPerf(path string) (all []Request, failed int, err error) {
	err = readEach(path, (*scan.Lines).EachLine, func(f *scan.Fields) error {
		x := entries.ReadExport(f)
		if !x.Profiled || x.Failed {
			if x.Profiled {
				failed++
			}
			return nil
		}
		at, told := x.Metadata.ReadFloat("request_start_ns")
		ttft, latency := x.Seconds("time_to_first_token"), x.Seconds("request_latency")
		in, out := x.Number("input_sequence_length"), x.Number("output_sequence_length")
		if !told || !(ttft >= 0 && latency >= ttft && in >= 1 && out >= 1) {
			return errors.New("must have request_start_ns, and time_to_first_token, request_latency, input_sequence_length and output_sequence_length")
		}
		at /= 1e9
		all = append(all, Request{
			ID: identifier(fmt.Sprint(f.Line)), Place: len(all), Input: int(in), Output: int(out), Arrival: at,
			First: at + ttft, Last: at + latency, Queued: math.NaN(), Scheduled: math.NaN(),
		})
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	all, err = checkCount(path, all)
	return all, failed, err
}

// checkCount returns an error if a run has too few requests.
func checkCount(path string, all []Request) ([]Request, error) {
	if len(all) < Fewest {
		return nil, fmt.Errorf("%s: %d requests, must be at least %d", path, len(all), Fewest)
	}
	return all, nil
}
