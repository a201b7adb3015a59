package main

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/scheduler/hardware"
)

// server is a measured server: how it ran, and what it reported.
type server struct {
	name     string
	path     string // below ../shared: a directory of vLLM's own times, or a client's table
	gpu      string
	model    string
	pods     int
	change   func(*hardware.Fit)
	kvTokens int  // it reported; 0: it did not
	overload bool // its queue grew, so that the time to the first token is a waiting time
}

// request is a measured request. Times are in ms.
type request struct {
	arrival       float64
	input, output int
	hashes        []uint64 // of its blocks
	ttft, tpot    float64
	e2e           float64
}

// listServers returns the measured servers.
func listServers() []server {
	eager := func(f *hardware.Fit) { f.Graphs = "none" }
	pods := func(f *hardware.Fit) { f.Utilization, f.BlockTokens = 0.75, 64 }
	return []server{
		{"RTX 4090, Llama-3.1-8B", "vllm-runs/RTX4090_Llama-3.1-8B", "rtx4090", "llama-3.1-8b", 1, func(*hardware.Fit) {}, 41408, true},
		{"RTX PRO 6000, Llama-3.1-8B", "vllm-runs/RTXPRO6000_Llama-3.1-8B", "rtxpro6000", "llama-3.1-8b", 1, func(f *hardware.Fit) { f.MaxSeqs = 128 }, 0, true},
		{"H100, Qwen3-14B, eager, 5/s", "measured/one-pod-qwen3-14b-eager/rate-5/trace_data.csv", "h100", "qwen3-14b", 1, eager, 281008, false},
		{"H100, Qwen3-14B, eager, 8/s", "measured/one-pod-qwen3-14b-eager/rate-8/trace_data.csv", "h100", "qwen3-14b", 1, eager, 281008, false},
		{"H100, Qwen3-14B, eager, 15/s", "measured/one-pod-qwen3-14b-eager/rate-15/trace_data.csv", "h100", "qwen3-14b", 1, eager, 281008, true},
		{"4 × H100, Qwen3-14B, 40/s", "measured/four-pods-qwen3-14b-prefix/w2-40/trace_data.csv.gz", "h100", "qwen3-14b", 4, pods, 198208, false},
	}
}

// fit returns the server's GPU and model, with the settings all of them have.
func (s *server) fit() (hardware.Fit, error) {
	f, err := hardware.ParseFit(s.gpu + "/" + s.model)
	f.MaxBatch = 2048
	s.change(&f)
	return f, err
}

// read returns the server's requests, by arrival.
func (s *server) read(shared string) ([]request, error) {
	path := filepath.Join(shared, s.path)
	read := readTable
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() {
		read = readOwnTimes
	}
	all, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	slices.SortStableFunc(all, func(a, b request) int {
		switch {
		case a.arrival < b.arrival:
			return -1
		case a.arrival > b.arrival:
			return 1
		}
		return 0
	})
	for i := len(all) - 1; i >= 0; i-- {
		all[i].arrival -= all[0].arrival
	}
	return all, nil
}

// readOwnTimes reads the times that a server's engine kept, with the prompts' blocks.
func readOwnTimes(dir string) ([]request, error) {
	prompts, err := readLines[struct {
		Hashes []uint64 `json:"hash_ids"`
	}](filepath.Join(filepath.Dir(dir), "prompts_llama-3.1-8b.jsonl"))
	if err != nil {
		return nil, err
	}
	rows, err := readLines[struct {
		Input   int     `json:"input_toks"`
		Output  int     `json:"output_toks"`
		Arrival float64 `json:"arrival_time"`
		Queued  float64 `json:"queued_ts"`
		First   float64 `json:"first_token_ts"`
		Last    float64 `json:"last_token_ts"`
	}](filepath.Join(dir, "requests.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(rows) != len(prompts) {
		return nil, fmt.Errorf("%d requests and %d prompts, want as many", len(rows), len(prompts))
	}
	all := make([]request, len(rows))
	for i, r := range rows {
		all[i] = request{arrival: 1000 * r.Arrival, input: r.Input, output: r.Output, hashes: prompts[i].Hashes,
			ttft: 1000 * (r.First - r.Queued), e2e: 1000 * (r.Last - r.Queued), tpot: 1000 * (r.Last - r.First) / float64(max(r.Output-1, 1))}
	}
	return all, nil
}

// readLines reads a value per line of JSON.
func readLines[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []T
	for decoder := json.NewDecoder(f); ; {
		var row T
		if err := decoder.Decode(&row); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
}

// readTable reads the times of a client, in µs.
func readTable(path string) ([]request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, err
		}
	}
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		return nil, err
	}
	columns := map[string]int{}
	for i, name := range rows[0] {
		columns[name] = i
	}
	var all []request
	next, shared := uint64(1<<32), map[string]uint64{}
	for _, row := range rows[1:] {
		of := func(name string) int {
			n, _ := strconv.Atoi(row[columns[name]]) // empty fields are of requests that failed
			return n
		}
		output := of("output_tokens")
		if row[columns["status"]] != "ok" || output == 0 {
			continue
		}
		r := request{arrival: float64(of("send_time_us")) / 1000, input: of("server_input_tokens"), output: output}
		first, last := float64(of("first_chunk_time_us"))/1000, float64(of("last_chunk_time_us"))/1000
		r.ttft, r.e2e, r.tpot = first-r.arrival, last-r.arrival, (last-first)/float64(max(output-1, 1))
		const block = 64
		for i := 0; i < r.input; i += block {
			next++
			hash := next
			if group := row[columns["prefix_group"]]; group != "" && i+block <= of("prefix_length") {
				key := group + "/" + strconv.Itoa(i)
				if shared[key] == 0 {
					shared[key] = uint64(1 + len(shared))
				}
				hash = shared[key]
			}
			r.hashes = append(r.hashes, hash)
		}
		all = append(all, r)
	}
	return all, nil
}
