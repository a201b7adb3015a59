package measured

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// Transfer is the size and time of a KV transfer from a prefill to a decode server. Transfer can also be the mean of
// several transfers.
type Transfer struct {
	Count          int
	Bytes, Seconds float64
}

// Transfers holds the measured KV transfers between a prefill and a decode server.
type Transfers struct {
	All   []Transfer
	Rank  bool // the transfers are of single GPUs, and each GPU sends its share
	Notes []string
}

// ReadTransfers reads the transfers between prefill and decode servers from a directory. The transfers come from
// single requests, from vLLM's log lines every 10 s, or from the counts of vLLM's metrics. The argument perToken is
// the size of a token's KV cache in bytes.
func ReadTransfers(dir string, perToken int) (*Transfers, error) {
	for _, read := range []func(string, int) (*Transfers, error){readHandoffs, readTransferLogs, readTransferMetrics} {
		t, err := read(dir, perToken)
		if err != nil || t != nil {
			return t, err
		}
	}
	return nil, fmt.Errorf("%s: no rows with prefill_last_token_ts, no log with \"KV Transfer metrics\" and no metrics with nixl_xfer_time_seconds, must be one of them", dir)
}

// handoff is a row of requests.jsonl with the end of its prompt on the prefill server. The end of the prompt is on
// the clock of the other times.
type handoff struct {
	Input     int      `json:"input_toks"`
	Output    int      `json:"output_toks"`
	Prefilled *float64 `json:"prefill_last_token_ts"`
	First     float64  `json:"first_token_ts"`
	Last      float64  `json:"last_token_ts"`
}

// readHandoffs reads the times between the end of a prompt on its prefill server and its first token from the decode
// server. readHandoffs subtracts the pass of the first token, and returns nil if no row has the end of its prompt.
func readHandoffs(dir string, perToken int) (*Transfers, error) {
	t := &Transfers{}
	path := filepath.Join(dir, "requests.jsonl")
	err := readLines(path, func(_ int, text []byte) error {
		var h handoff
		if len(text) == 0 {
			return nil
		}
		if err := json.Unmarshal(text, &h); err != nil || h.Prefilled == nil {
			return err
		}
		if h.Input < 1 || h.Output < 2 || !(h.First >= *h.Prefilled) || !(h.Last >= h.First) {
			return fmt.Errorf("input_toks %d, output_toks %d, end of the prompt, first and last token at %v, %v and %v s, must be 2 tokens or more and instants in this order", h.Input, h.Output, *h.Prefilled, h.First, h.Last)
		}
		pass := (h.Last - h.First) / float64(h.Output-1)
		t.All = append(t.All, Transfer{1, float64(h.Input * perToken), max(h.First-*h.Prefilled-pass, 0)})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(t.All) == 0 {
		return nil, nil
	}
	t.Notes = []string{"a transfer is taken to last from the end of the prompt to the first token of the decode server, less one pass: waiting there counts as latency"}
	return t, err
}

// perGPU is the note about transfers in vLLM's logs and metrics.
const perGPU = "transfers are those of single GPUs: a worker's are as many side by side as it has"

// readTransferLogs reads the logs of servers about their transfers, or nil if there are none.
func readTransferLogs(dir string, _ int) (*Transfers, error) {
	logs, err := findLogs(dir)
	if err != nil {
		return nil, err
	}
	t := &Transfers{Rank: true, Notes: []string{perGPU}}
	line := regexp.MustCompile(`KV Transfer metrics:.*Num successful transfers=(\d+), .*Avg xfer time \(ms\)=([\d.]+).*Avg MB per transfer=([\d.]+)`)
	for _, path := range logs {
		f, err := scan.OpenPacked(path)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, mostLine)
		for lines.Scan() {
			if m := line.FindStringSubmatch(lines.Text()); m != nil {
				count, _ := strconv.Atoi(m[1]) // the expression allows only digits
				ms, _ := strconv.ParseFloat(m[2], 64)
				mebibytes, _ := strconv.ParseFloat(m[3], 64)
				t.add(count, mebibytes*float64(count<<20), ms/1000*float64(count))
			}
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(t.All) == 0 {
		return nil, nil
	}
	return t, nil
}

// add adds several transfers by their total bytes and seconds.
func (t *Transfers) add(count int, bytes, seconds float64) {
	if count > 0 && bytes > 0 && seconds > 0 {
		t.All = append(t.All, Transfer{count, bytes / float64(count), seconds / float64(count)})
	}
}

// readTransferMetrics reads the metrics of servers about their transfers, between successive snapshots of a server.
// readTransferMetrics returns nil if there are no transfers.
func readTransferMetrics(dir string, _ int) (*Transfers, error) {
	paths, err := findSnapshots(dir)
	if err != nil {
		return nil, err
	}
	t := &Transfers{Rank: true, Notes: []string{perGPU}}
	for _, path := range paths {
		all, err := readSnapshotFile(path)
		if err != nil {
			return nil, err
		}
		before := map[string][3]float64{}
		for _, s := range all {
			now := [3]float64{s.sum("vllm:nixl_xfer_time_seconds_count"), s.sum("vllm:nixl_bytes_transferred_sum"), s.sum("vllm:nixl_xfer_time_seconds_sum")}
			if math.IsNaN(now[0] + now[1] + now[2]) {
				continue
			}
			was := before[s.server]
			if now[0] < was[0] { // the server was restarted
				was = [3]float64{}
			}
			before[s.server] = now
			t.add(int(now[0]-was[0]), now[1]-was[1], now[2]-was[2])
		}
	}
	if len(t.All) == 0 {
		return nil, nil
	}
	return t, nil
}
