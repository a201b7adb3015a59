package calibrate

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
	"github.com/replay-llm/replay/scheduler/timing"
)

// pairOf returns the known facts of a pair of servers with an H100 each and 131,072 bytes of KV cache per token.
func pairOf() map[string]any {
	return map[string]any{"model": "llama-3.1-8b", "device_name": "h100"}
}

// sent returns the time for sending bytes over a link with 25 GB/s and 3 ms.
func sent(bytes float64) float64 { return 0.003 + bytes/25e9 }

// writeTransferLog writes the log of a decode server about transfers of several sizes, one of them slow.
func writeTransferLog(t *testing.T, dir string, seconds func(float64) float64) {
	t.Helper()
	var log bytes.Buffer
	log.WriteString("INFO Initializing a V1 LLM engine (v0.20.2) with config: model='llama-3.1-8b', tensor_parallel_size=1\n")
	for i := range 24 {
		mebibytes := 20 + float64(i*37%200)
		took := seconds(mebibytes * (1 << 20))
		if i == 5 {
			took *= 4
		}
		fmt.Fprintf(&log, "INFO 06-08 18:39:43 KV Transfer metrics: Num successful transfers=%d, Avg xfer time (ms)=%.3f, P90 xfer time (ms)=9.1, Avg post time (ms)=0.9, P90 post time (ms)=1.2, Avg MB per transfer=%.3f, Throughput (MB/s)=812.1, Avg number of descriptors=64.0\n",
			1+i%3, 1000*took, mebibytes)
	}
	measuredtest.Write(t, filepath.Join(dir, "vllm-decode.log"), log.String())
}

// TestTransferLogs checks that logs of transfers give bandwidth and latency, with different times of single
// transfers.
func TestTransferLogs(t *testing.T) {
	dir := t.TempDir()
	writeTransferLog(t, dir, sent)
	got, err := FitTransfers(dir, pairOf())
	if err != nil {
		t.Fatal(err)
	}
	l := got.Link
	if math.Abs(l.GBPerSecond/25-1) > 0.01 || math.Abs(l.Latency/0.003-1) > 0.01 || l.BytesPerToken != 131072 || l.Transfers != 48 {
		t.Errorf("%+v, want 25 GB/s and 3 ms", l)
	}
	var b bytes.Buffer
	if err := got.WriteText(&b); err != nil || !strings.Contains(b.String(), "--kv-bytes-per-token 131072 --kv-transfer-bandwidth 2") {
		t.Errorf("%v\n%s", err, &b)
	}
	writeTransferLog(t, dir, func(bytes float64) float64 { return bytes / 900e9 })
	if _, err := FitTransfers(dir, pairOf()); err == nil || !strings.Contains(err.Error(), "GB/s, must be at most the 450 GB/s of the links of 1 h100") {
		t.Errorf("%v for what no link of an H100 can", err)
	}
	writeTransferLog(t, dir, func(bytes float64) float64 { return 0.1 - bytes/25e9 })
	if _, err := FitTransfers(dir, pairOf()); err == nil || !strings.Contains(err.Error(), "the larger ones take less time") {
		t.Errorf("%v for transfers that are the shorter the more they move", err)
	}
	if _, err := FitTransfers(t.TempDir(), pairOf()); err == nil || !strings.Contains(err.Error(), "no rows with prefill_last_token_ts, no log") {
		t.Errorf("%v for an empty directory", err)
	}
	writeTransferLog(t, dir, sent)
	if _, err := FitTransfers(dir, map[string]any{"model": "nobody"}); err != nil {
		t.Errorf("the model of the log is not taken: %v", err)
	}
}

// TestTransferMetrics checks that two GPUs send their halves at the same time.
func TestTransferMetrics(t *testing.T) {
	dir := t.TempDir()
	var text bytes.Buffer
	count, moved, took := 0, 0.0, 0.0
	for i := range 12 {
		bytes := float64(1+i*5%12) * 30e6
		count, moved, took = count+2, moved+2*bytes, took+2*sent(bytes)
		fmt.Fprintf(&text, "vllm:nixl_xfer_time_seconds_count{engine=\"0\"} %d\nvllm:nixl_xfer_time_seconds_sum{engine=\"0\"} %v\nvllm:nixl_bytes_transferred_sum{engine=\"0\"} %v\nvllm:nixl_bytes_transferred_count{engine=\"0\"} %d\n", count, took, moved, count)
	}
	measuredtest.Write(t, filepath.Join(dir, "decode.prom"), text.String())
	known := pairOf()
	known["tensor_parallel_size"] = 2.0
	got, err := FitTransfers(dir, known)
	if err != nil {
		t.Fatal(err)
	}
	if l := got.Link; math.Abs(l.GBPerSecond/50-1) > 0.01 || math.Abs(l.Latency/0.003-1) > 0.01 || l.Transfers != 24 || l.BytesPerToken != 131072 {
		t.Errorf("%+v, want 50 GB/s and 3 ms", l)
	}
	measuredtest.Write(t, filepath.Join(dir, "decode.prom"), "vllm:nixl_xfer_time_seconds_count 10\nvllm:nixl_xfer_time_seconds_sum 0.1\nvllm:nixl_bytes_transferred_sum 1e9\n")
	if got, err = FitTransfers(dir, pairOf()); err != nil || !near(got.Link.GBPerSecond, 10) || got.Link.Latency != 0 || !strings.Contains(strings.Join(got.Notes, " "), "of one size") {
		t.Errorf("%+v, %v, want 10 GB/s and a word that sizes are one", got, err)
	}
}

// TestTransferTimes checks runs with times of requests only. A transfer is then the time between the servers without
// the pass.
func TestTransferTimes(t *testing.T) {
	dir := t.TempDir()
	var rows bytes.Buffer
	for i := range 60 {
		input, pass := 100+i*211%4000, 0.02
		end := float64(i)
		first := end + sent(float64(input)*131072) + pass
		fmt.Fprintf(&rows, `{"input_toks":%d,"output_toks":11,"prefill_last_token_ts":%v,"first_token_ts":%v,"last_token_ts":%v}`+"\n", input, end, first, first+10*pass)
	}
	measuredtest.Write(t, filepath.Join(dir, "requests.jsonl"), rows.String())
	got, err := FitTransfers(dir, pairOf())
	if err != nil {
		t.Fatal(err)
	}
	if l := got.Link; math.Abs(l.GBPerSecond/25-1) > 0.01 || math.Abs(l.Latency/0.003-1) > 0.01 || l.Transfers != 60 || !(l.BandwidthSpread < 0.01) {
		t.Errorf("%+v, want 25 GB/s and 3 ms", l)
	}
	r := &Result{}
	if r.AddTransfers(got); r.Profile.Link != got.Link || len(r.Notes) != 1 {
		t.Errorf("%+v", r)
	}
	measuredtest.Write(t, filepath.Join(dir, "requests.jsonl"), `{"input_toks":10,"output_toks":5,"prefill_last_token_ts":3,"first_token_ts":2,"last_token_ts":4}`)
	if _, err := FitTransfers(dir, pairOf()); err == nil || !strings.Contains(err.Error(), "requests.jsonl:1: input_toks 10") {
		t.Errorf("%v for a token before its prompt", err)
	}
	if _, err := FitTransfers(dir, map[string]any{"device_name": "h100"}); err == nil || !strings.Contains(err.Error(), "--model") {
		t.Errorf("%v where the model is not told", err)
	}
}

// TestLinkInProfile checks that a profile has no link with impossible times.
func TestLinkInProfile(t *testing.T) {
	for text, want := range map[string]string{
		`{"bandwidth_gb_s":0,"kv_bytes_per_token":1}`:                 "bandwidth_gb_s is 0, must be",
		`{"bandwidth_gb_s":5,"latency_s":-1,"kv_bytes_per_token":1}`:  "latency_s is -1, must be",
		`{"bandwidth_gb_s":5,"latency_s":0.1}`:                        "kv_bytes_per_token is 0, must be",
		`{"bandwidth_gb_s":5,"latency_s":0.1,"kv_bytes_per_token":9}`: "",
	} {
		path := filepath.Join(t.TempDir(), "p.json")
		measuredtest.Write(t, path, `{"version":1,"parameters":{"weights_s":1},"kv_transfer":`+text+`}`)
		_, err := timing.LoadProfile(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
