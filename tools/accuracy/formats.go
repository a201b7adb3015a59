package main

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/calibrate"
)

// readOwnTimes reads the times that the engine of a server recorded, and the blocks of the prompts.
func readOwnTimes(dir string) ([]request, error) {
	prompts, err := readLines[struct {
		Hashes []uint64 `json:"hash_ids"`
	}](promptsOf(dir))
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
		return nil, fmt.Errorf("%s: %d requests and %d prompts, expected as many", dir, len(rows), len(prompts))
	}
	all := make([]request, len(rows))
	for i, r := range rows {
		all[i] = request{arrival: 1000 * r.Arrival, input: r.Input, output: r.Output, block: 16, hashes: prompts[i].Hashes,
			ttft: 1000 * (r.First - r.Queued), e2e: 1000 * (r.Last - r.Queued), tpot: 1000 * (r.Last - r.First) / float64(max(r.Output-1, 1))}
	}
	return all, nil
}

// promptsOf returns the file with the prompts of a run that has engine times.
func promptsOf(dir string) string {
	return filepath.Join(filepath.Dir(dir), "prompts_llama-3.1-8b.jsonl")
}

// readTurns reads the turns of a closed loop, like replay calibrate.
func (s *server) readTurns(path string) (all []request, err error) {
	if s.turns, err = calibrate.ReadTimesOf(path, s.inFlight); err != nil {
		return nil, err
	}
	for i := range s.turns.Requests {
		r := &s.turns.Requests[i]
		all = append(all, request{
			arrival: 1000 * r.Arrival, input: r.Input, output: r.Output, block: s.turns.Prompts.BlockTokens, ttft: 1000 * (r.First - r.Arrival),
			e2e: 1000 * (r.Last - r.Arrival), tpot: 1000 * (r.Last - r.First) / float64(max(r.Output-1, 1)),
		})
	}
	return all, nil
}

// readSummary reads the time between tokens from the summary of a run.
func readSummary(path string) (metric, error) {
	rows, err := readLines[struct {
		ITL struct {
			Mean float64 `json:"mean"`
			P99  float64 `json:"p99"`
		} `json:"itl_ms"`
	}](path)
	if err != nil || len(rows) != 1 {
		return metric{}, fmt.Errorf("%s: %d summaries, must be 1: %w", path, len(rows), err)
	}
	return metric{mean: rows[0].ITL.Mean, p99: rows[0].ITL.P99}, nil
}

// openFile opens a file that may be compressed with gzip.
func openFile(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil || !strings.HasSuffix(path, ".gz") {
		return f, err
	}
	unpacked, err := gzip.NewReader(f)
	return struct {
		io.Reader
		io.Closer
	}{unpacked, f}, err
}

// readLines decodes one JSON value per line.
func readLines[T any](path string) ([]T, error) {
	f, err := openFile(path)
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
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, row)
	}
}

// readTable reads the times of a client, in µs.
func readTable(path string) ([]request, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	columns := map[string]int{}
	for i, name := range rows[0] {
		columns[name] = i
	}
	var all []request
	next, shared := uint64(1<<32), map[string]uint64{}
	for _, row := range rows[1:] {
		of := func(name string) int {
			n, _ := strconv.Atoi(row[columns[name]]) // the fields of failed requests are empty
			return n
		}
		output := of("output_tokens")
		if row[columns["status"]] != "ok" || output == 0 {
			continue
		}
		const block = 64
		r := request{arrival: float64(of("send_time_us")) / 1000, input: of("server_input_tokens"), output: output, block: block}
		first, last := float64(of("first_chunk_time_us"))/1000, float64(of("last_chunk_time_us"))/1000
		r.ttft, r.e2e, r.tpot = first-r.arrival, last-r.arrival, (last-first)/float64(max(output-1, 1))
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
