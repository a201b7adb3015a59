package calibrate

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
	"github.com/replay-llm/replay/scheduler/timing"
)

// transfer is what moving KV caches from a prefill to a decode server took: of one, or the means of some.
type transfer struct {
	count          int
	bytes, seconds float64
}

// transfers is what was measured of the KV transfers of a pair of servers.
type transfers struct {
	all   []transfer
	rank  bool // they are those of single GPUs, each of which sends its own share
	notes []string
}

// readTransfers reads the transfers of a pair of prefill and decode servers from a directory: those of
// single requests, what vLLM logged of them every 10 s, or what its metrics counted. perToken is the
// KV cache of a token in bytes.
func readTransfers(dir string, perToken int) (*transfers, error) {
	for _, read := range []func(string, int) (*transfers, error){readHandoffs, readTransferLogs, readTransferMetrics} {
		t, err := read(dir, perToken)
		if err != nil || t != nil {
			return t, err
		}
	}
	return nil, fmt.Errorf("%s: no rows with prefill_last_token_ts, no log with \"KV Transfer metrics\" and no metrics with nixl_xfer_time_seconds, want one of them", dir)
}

// handoff is a row of requests.jsonl with the end of its prompt on the prefill server, on the clock of the other times.
type handoff struct {
	Input     int      `json:"input_toks"`
	Output    int      `json:"output_toks"`
	Prefilled *float64 `json:"prefill_last_token_ts"`
	First     float64  `json:"first_token_ts"`
	Last      float64  `json:"last_token_ts"`
}

// readHandoffs reads the times between the end of a prompt on its prefill server and its first token from the
// decode server, less the pass that made it; nil where no row has them.
func readHandoffs(dir string, perToken int) (*transfers, error) {
	t := &transfers{}
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
			return fmt.Errorf("input_toks %d, output_toks %d, end of the prompt, first and last token at %v, %v and %v s, want 2 tokens or more and instants in this order", h.Input, h.Output, *h.Prefilled, h.First, h.Last)
		}
		pass := (h.Last - h.First) / float64(h.Output-1)
		t.all = append(t.all, transfer{1, float64(h.Input * perToken), max(h.First-*h.Prefilled-pass, 0)})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(t.all) == 0 {
		return nil, nil
	}
	t.notes = []string{"a transfer is taken to last from the end of the prompt to the first token of the decode server, less one pass: waiting there counts as latency"}
	return t, err
}

// perGPU is what is noted of transfers that vLLM counts.
const perGPU = "transfers are those of single GPUs: a worker's are as many side by side as it has"

// readTransferLogs reads what servers logged of their transfers; nil where none did.
func readTransferLogs(dir string, _ int) (*transfers, error) {
	logs, err := findLogs(dir)
	if err != nil {
		return nil, err
	}
	t := &transfers{rank: true, notes: []string{perGPU}}
	line := regexp.MustCompile(`KV Transfer metrics:.*Num successful transfers=(\d+), .*Avg xfer time \(ms\)=([\d.]+).*Avg MB per transfer=([\d.]+)`)
	for _, path := range logs {
		f, err := openPacked(path)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, mostLine)
		for lines.Scan() {
			if m := line.FindStringSubmatch(lines.Text()); m != nil {
				count, _ := strconv.Atoi(m[1]) // they are all digits
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
	if len(t.all) == 0 {
		return nil, nil
	}
	return t, nil
}

// add adds some transfers by what they moved and took together.
func (t *transfers) add(count int, bytes, seconds float64) {
	if count > 0 && bytes > 0 && seconds > 0 {
		t.all = append(t.all, transfer{count, bytes / float64(count), seconds / float64(count)})
	}
}

// readTransferMetrics reads what servers counted of their transfers, between each snapshot and the next of
// the same server; nil where none did.
func readTransferMetrics(dir string, _ int) (*transfers, error) {
	paths, err := findSnapshots(dir)
	if err != nil {
		return nil, err
	}
	t := &transfers{rank: true, notes: []string{perGPU}}
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
			if now[0] < was[0] { // the server was started anew
				was = [3]float64{}
			}
			before[s.server] = now
			t.add(int(now[0]-was[0]), now[1]-was[1], now[2]-was[2])
		}
	}
	if len(t.all) == 0 {
		return nil, nil
	}
	return t, nil
}

// sameSize is the share by which sizes must differ for a latency to be told from a bandwidth.
const sameSize = 0.1

// mostPairs bounds the transfers whose pairs are looked at.
const mostPairs = 1000

// fit returns the link on which transfers take what was measured. gpus is how many of a worker send side by side.
func (t *transfers) fit(perToken, gpus int) (*timing.Link, error) {
	slope, latency := fitLine(t.all)
	if !(slope > 0) {
		return nil, fmt.Errorf("%d transfers take the longer the less they move, want some whose time grows with their size", len(t.all))
	}
	l := &timing.Link{Latency: latency, BytesPerToken: perToken}
	for _, x := range t.all {
		l.Transfers += x.count
	}
	side := 1.0
	if t.rank {
		side = float64(max(gpus, 1))
	}
	l.GBPerSecond = side / slope / 1e9
	if !differInSize(t.all) {
		t.notes = append(t.notes, "all transfers are of one size: what is latency cannot be told, and all counts as bandwidth")
	}
	var slopes, latencies []float64
	for piece := range partsOfRuns {
		var part []transfer
		for i := piece; i < len(t.all); i += partsOfRuns {
			part = append(part, t.all[i])
		}
		if len(part) < 2 {
			return l, nil
		}
		a, b := fitLine(part)
		slopes, latencies = append(slopes, a), append(latencies, b)
	}
	l.BandwidthSpread = spreadOf(slopes) / slope
	if latency > 0 {
		l.LatencySpread = spreadOf(latencies) / latency
	}
	return l, nil
}

// differInSize reports whether transfers are of several sizes.
func differInSize(all []transfer) bool {
	least, most := math.Inf(1), 0.0
	for _, x := range all {
		least, most = min(least, x.bytes), max(most, x.bytes)
	}
	return most > (1+sameSize)*least
}

// fitLine returns the s per byte of transfers and what they take beyond that, by the medians over all pairs: single
// ones that took much longer do not count.
func fitLine(all []transfer) (slope, latency float64) {
	if stride := (len(all) + mostPairs - 1) / mostPairs; stride > 1 {
		var some []transfer
		for i := 0; i < len(all); i += stride {
			some = append(some, all[i])
		}
		all = some
	}
	var rates, slopes, rest []float64
	for i, a := range all {
		rates = append(rates, a.seconds/a.bytes)
		for _, b := range all[i+1:] {
			if math.Abs(a.bytes-b.bytes) > sameSize*min(a.bytes, b.bytes) {
				slopes = append(slopes, (b.seconds-a.seconds)/(b.bytes-a.bytes))
			}
		}
	}
	whole := quantileOf(rates, 0.5)
	if len(slopes) == 0 {
		return whole, 0
	}
	slope = quantileOf(slopes, 0.5)
	for _, x := range all {
		rest = append(rest, x.seconds-float64(slope*x.bytes))
	}
	if latency = quantileOf(rest, 0.5); latency < 0 {
		return whole, 0
	}
	return slope, latency
}

// spreadOf returns the standard deviation of values.
func spreadOf(values []float64) float64 {
	mean, sum := meanOf(values), 0.0
	for _, v := range values {
		sum += float64(squareOf(v - mean))
	}
	return math.Sqrt(sum / float64(len(values)-1))
}
