package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate"
)

// If the log of a server shows that it is slow, the replay for the comparison has a slow worker, unless a flag sets
// the speeds of workers.
func TestSlowServers(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	dir := makeRun(t, "slow", 24, "--worker-speed", "1,1,0.8,1")
	for pod := range 4 {
		text := &strings.Builder{}
		text.WriteString(podLog)
		ms := 15.0
		if pod == 2 {
			ms /= 0.8
		}
		for i := range 12 {
			fmt.Fprintf(text, "INFO Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: 0 reqs, GPU KV cache usage: 9.1%%, Prefix cache hit rate: 0.0%%\n", float64(29+i%3)/ms*1000, 29+i%3)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("vllm-pod%d.log", pod+1)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range [][]string{nil, {"--worker-speed", "1,1,1,1"}} {
		var out, errs bytes.Buffer
		args := append([]string{"validate", dir, "--gpu", "h100", "--model", "qwen3-14b", "--graphs", "none", "--endpoint-picker", "picker/precise.yaml", "--output", "json"}, flags...)
		if code := run(args, nil, &out, &errs); code != 0 {
			t.Fatalf("exit %d: %s", code, &errs)
		}
		var got struct {
			Notes       []string           `json:"notes"`
			Assumptions map[string]string  `json:"assumptions"`
			Checks      []calibrate.Judged `json:"checks"`
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(strings.Join(got.Notes, "\n"), "slow: vllm-pod3.log is 25.0 % slower than its peers at equal load: simulated so")
		tpot := got.Checks[0].Errors[1]
		t.Logf("%v: TPOT %+.2f %%, %v", flags, 100*tpot.Mean, got.Assumptions)
		if said != (flags == nil) || math.Abs(tpot.Mean) < 0.01 != said {
			t.Errorf("%v: said %v, mean TPOT is %+.1f %% off; %q", flags, said, 100*tpot.Mean, got.Notes)
		}
	}
}
