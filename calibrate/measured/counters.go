package measured

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/stable"
)

// Counts holds the counts of a server's metrics over a run. The counts are differences between the first and the last
// snapshot, or counts since the start of the server if there is only one snapshot. A count is NaN if the server does
// not have it.
type Counts struct {
	name                                          string
	snapshots                                     int
	Requests, Prompts, Generated, Queried, Cached float64
	Preempted                                     float64
	First, Apart, Between, Whole                  *Histogram // TTFT, TPOT, ITL, E2E; nil: not in the metrics
	settings                                      tree
}

// counterNames returns the names of all counters: vLLM's names, including older ones, then SGLang's.
func (c *Counts) counterNames() []struct {
	to    *float64
	names []string
} {
	type named = struct {
		to    *float64
		names []string
	}
	return []named{
		{&c.Requests, []string{"vllm:request_success_total", "vllm:e2e_request_latency_seconds_count", "sglang:num_requests_total", "sglang:e2e_request_latency_seconds_count"}},
		{&c.Prompts, []string{"vllm:prompt_tokens_total", "sglang:prompt_tokens_total"}},
		{&c.Generated, []string{"vllm:generation_tokens_total", "sglang:generation_tokens_total"}},
		{&c.Queried, []string{"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total", "sglang:prompt_tokens_total"}},
		{&c.Cached, []string{"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "sglang:cached_tokens_total"}},
		{&c.Preempted, []string{"vllm:num_preemptions_total", "sglang:num_retracted_requests_total"}},
	}
}

// timeNames returns the names of the histograms of times.
func (c *Counts) timeNames() []struct {
	to    **Histogram
	names []string
} {
	type named = struct {
		to    **Histogram
		names []string
	}
	return []named{
		{&c.First, []string{"vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"}},
		{&c.Apart, []string{"vllm:request_time_per_output_token_seconds", "sglang:request_time_per_output_token_seconds"}},
		{&c.Between, []string{"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds", "sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"}},
		{&c.Whole, []string{"vllm:e2e_request_latency_seconds", "sglang:e2e_request_latency_seconds"}},
	}
}

// readCounted reads the snapshots of a run and returns the counts of each server.
func readCounted(dir string) ([]*Counts, error) {
	paths, err := findSnapshots(dir)
	if err != nil {
		return nil, err
	}
	var order []string
	byServer := map[string][]*snapshot{}
	for _, path := range paths {
		all, err := readSnapshotFile(path)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			key := s.identify()
			if len(byServer[key]) == 0 {
				order = append(order, key)
			}
			s.server = cmp.Or(s.server, filepath.Base(path))
			byServer[key] = append(byServer[key], s)
		}
	}
	var all []*Counts
	for _, key := range order {
		c, err := countBetween(byServer[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", dir, byServer[key][0].server, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// identify returns a name for the process that answered: its server, and the time when it created its counters or
// when it started.
func (s *snapshot) identify() string {
	for _, name := range []string{"vllm:prompt_tokens_created", "vllm:generation_tokens_created", "sglang:prompt_tokens_created", startName} {
		if v := s.sum(name); !math.IsNaN(v) {
			return fmt.Sprint(s.server, " ", name, " ", v)
		}
	}
	return s.server
}

// countBetween returns the counts between the first and the last snapshot of a server.
func countBetween(all []*snapshot) (*Counts, error) {
	progress := func(s *snapshot) float64 {
		c := &Counts{}
		total := 0.0
		for _, x := range c.counterNames() {
			if v := s.sum(x.names...); !math.IsNaN(v) {
				total += v
			}
		}
		return total
	}
	stable.Sort(all, func(a, b *snapshot) int { return cmp.Compare(progress(a), progress(b)) })
	first, last := all[0], all[len(all)-1]
	c := &Counts{name: last.server, snapshots: len(all), settings: last.settings()}
	for _, x := range c.counterNames() {
		*x.to = last.sum(x.names...)
		if before := first.sum(x.names...); len(all) > 1 && !math.IsNaN(before) {
			*x.to -= before
		}
	}
	for _, x := range c.timeNames() {
		h := last.histogram(x.names...)
		if before := first.histogram(x.names...); h != nil && before != nil && len(all) > 1 {
			if err := h.add(before, -1); err != nil {
				return nil, fmt.Errorf("%s: %w", x.names[0], err)
			}
		}
		if h != nil && h.Count > 0 {
			*x.to = h
		}
	}
	return c, nil
}

// settings returns the server's settings in a snapshot, by the keys of meta.json.
func (s *snapshot) settings() tree {
	t := tree{}
	if pool := s.sum("sglang:max_total_num_tokens"); !math.IsNaN(pool) {
		args := map[string]any{"max_total_num_tokens": pool}
		if page := s.sum("sglang:page_size"); !math.IsNaN(page) {
			args["page_size"] = page
		}
		return tree{"engine": "sglang", "server_args": args}
	}
	if n := len(s.samples["vllm:num_requests_running"]); n > 1 {
		t["data_parallel_size"] = float64(n)
	}
	for _, key := range []string{"num_gpu_blocks", "block_size", "enable_prefix_caching"} {
		text := s.label("vllm:cache_config_info", key)
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			t[key] = n
		} else if b, err := strconv.ParseBool(text); err == nil {
			t[key] = b
		}
	}
	if model := s.label("vllm:generation_tokens_total", "model_name"); model != "" {
		t["model"] = model
	}
	return t
}

// SumCounted returns the sums of the counts of all servers, nil if there are none.
func SumCounted(all []*Counts) (*Counts, error) {
	if len(all) == 0 {
		return nil, nil
	}
	total := &Counts{}
	for _, c := range all {
		total.snapshots += c.snapshots
		for i, x := range c.counterNames() {
			*total.counterNames()[i].to += *x.to
		}
		for i, x := range c.timeNames() {
			h := total.timeNames()[i].to
			switch {
			case *x.to == nil:
			case *h == nil:
				copied := **x.to
				copied.counts = slices.Clone(copied.counts)
				*h = &copied
			default:
				if err := (*h).add(*x.to, 1); err != nil {
					return nil, fmt.Errorf("%s: %w", c.name, err)
				}
			}
		}
	}
	return total, nil
}

// noteCounted adds notes about the requests and the time that the counters cover.
func (s *Settings) noteCounted(all []*Counts, requests int) {
	if len(all) == 0 {
		return
	}
	since, total := false, 0.0
	for _, c := range all {
		since, total = since || c.snapshots == 1, total+c.Requests
	}
	how := "between the first snapshot and the last"
	if since {
		how = "since the start of the server, as there is only one snapshot"
	}
	servers := "1 server"
	if len(all) > 1 {
		servers = fmt.Sprintf("%d servers", len(all))
	}
	s.AddNote("metrics of %s count what was %s", servers, how)
	if !math.IsNaN(total) && total != float64(requests) {
		s.AddNote("they count %.0f requests, where %d were measured: counts and means are of all of theirs", total, requests)
	}
}

// podsOf returns servers by their metrics, for servers without logs.
func podsOf(all []*Counts) []Pod {
	var pods []Pod
	for _, c := range all {
		p := Pod{Name: c.name, generated: c.Generated, Served: c.Generated, Hit: math.NaN()}
		if c.Between != nil && c.Between.Count > 0 {
			p.running = c.Between.Sum / c.Between.Count * c.Generated
			p.lines = FewLines
		}
		if c.Queried > 0 {
			p.Hit = c.Cached / c.Queried
		}
		pods = append(pods, p)
	}
	return pods
}

// settingsInMetrics returns the settings of servers in their metrics, by the keys of meta.json.
func settingsInMetrics(all []*Counts) map[string]any {
	if len(all) == 0 {
		return nil
	}
	known := maps.Clone(all[0].settings)
	if len(all) > 1 {
		known["pods"] = float64(len(all))
	}
	return known
}

// readLengths reads the requests of a run that has times only in metrics. The requests and their arrivals come from
// the trace of the run.
func (m *Run) readLengths(dir string) error {
	path := filepath.Join(dir, tracedName)
	err := readLines(path, func(_ int, text []byte) error {
		x := struct {
			At     *float64 `json:"timestamp"`
			Input  int      `json:"input_length"`
			Output int      `json:"output_length"`
		}{}
		if err := json.Unmarshal(text, &x); err != nil {
			return err
		}
		if x.At == nil || x.Input < 1 || x.Output < 1 {
			return errors.New("must have timestamp in ms, input_length and output_length of at least 1")
		}
		nan := math.NaN()
		m.Requests = append(m.Requests, Request{
			ID: identifier(strconv.Itoa(len(m.Requests))), Place: len(m.Requests), Input: x.Input, Output: x.Output,
			Arrival: *x.At / 1000, Queued: nan, Scheduled: nan, First: nan, Last: nan,
		})
		return nil
	})
	if err != nil {
		return err
	}
	if m.Untimed = true; len(m.Requests) == 0 {
		return fmt.Errorf("%s: no requests, must have at least one", path)
	}
	served := make([]bool, len(m.Requests))
	for i := range served {
		served[i] = true
	}
	m.Prompts, err = readTraced(dir, served)
	return err
}
