package vllm_test

import (
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/telemetry/telemetrytest"
)

var (
	vllmServer = flag.String("vllm-server", "", "ask vLLM's own server at this `address` what is recorded, a fresh one: served as CONTRIBUTING.md says")
	rewrite    = flag.Bool("rewrite", false, "with -vllm-server: put what it answers into testdata")
)

// metricsFile contains the counts of vLLM's server after all requests.
const metricsFile = "testdata/vllm-0.32.0.metrics.json"

// ids returns a list of token ids in JSON. Each run has a first token and a length.
func ids(runs ...[2]int) string {
	var all []int
	for _, r := range runs {
		for i := range r[1] {
			all = append(all, (r[0]*97+i*13)%1900)
		}
	}
	b, _ := json.Marshal(all)
	return string(b)
}

// requests returns the bodies that are sent to vLLM's server and to this server, one after the other.
func requests() []string {
	ask := func(prompt, more string) string {
		return `{"model":"tiny","ignore_eos":true,"prompt":` + prompt + `,` + more + `}`
	}
	a, b, c := [2]int{1, 256}, [2]int{2, 128}, [2]int{3, 40}
	return []string{
		ask(ids(a), `"max_tokens":1`),
		ask(ids(a), `"max_tokens":5`), // all but the last block is cached
		ask(ids(a, c), `"max_tokens":20`),
		ask(ids(a, b), `"max_tokens":30,"stream":true`),
		ask(ids(b), `"max_tokens":300`), // long answers evict blocks
		ask(ids(a, b, c), `"max_tokens":7`),
		ask(ids([2]int{5, 300}), `"max_tokens":200`),
		ask(ids([2]int{6, 300}), `"max_tokens":200`),
		ask(ids(a), `"max_tokens":2,"n":3`),
		ask(ids(c), `"max_tokens":4,"n":2,"stream":true`),
		ask(`[`+ids(c)+`,`+ids([2]int{9, 20})+`]`, `"max_tokens":11`),
		ask(ids(a), `"max_tokens":4,"temperature":0`),
		ask(ids(a), `"max_tokens":0`),
		ask(ids([2]int{1, 600}), `"max_tokens":5`), // the prompt is too long
		ask(ids(c), `"max_tokens":5,"n":0`),        // n is rejected
		ask(ids(c), `"max_tokens":5,"top_p":7`),    // top_p is rejected
		`{"model":"none","prompt":[1],"n":1}`,      // the model is unknown
		ask(ids(c), `"min_tokens":3,"max_tokens":3`),
		// Four prompts that grow until two of them are preempted.
		ask(`[`+ids([2]int{11, 200})+`,`+ids([2]int{12, 200})+`,`+ids([2]int{13, 200})+`,`+ids([2]int{14, 200})+`]`, `"max_tokens":300`),
	}
}

// alone is the number of leading requests with one engine request each. The passes of later requests depend on
// arrivals that differ by microseconds.
const alone = 8

// askAll sends all requests and returns the statuses.
func askAll(t *testing.T, url string, bodies []string) (statuses []int) {
	t.Helper()
	for _, body := range bodies {
		r, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		statuses = append(statuses, r.StatusCode)
	}
	return statuses
}

// counted contains the counts of a server. Samples has the counts of tokens and requests. Samples that depend on time
// are 0.
type counted struct {
	Statuses []int
	Types    map[string]string
	Samples  map[string]float64
}

// scrape reads the metrics of a server when no request is in flight.
func scrape(t *testing.T, url string) (c *counted) {
	t.Helper()
	poll.Until(t, "no request is in flight", func() bool {
		r, err := http.Get(url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		m, err := telemetrytest.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		c = readCounts(m)
		return c.Samples[`vllm:num_requests_running{engine="0",model_name="tiny"}`]+c.Samples[`vllm:num_requests_waiting{engine="0",model_name="tiny"}`] == 0
	})
	return c
}

// readCounts extracts the counts that must be equal on two servers.
func readCounts(m *telemetrytest.Metrics) *counted {
	c := &counted{Types: map[string]string{}, Samples: map[string]float64{}}
	for name, kind := range m.Types {
		if !strings.HasPrefix(name, "python_") && !strings.HasPrefix(name, "process_") { // metrics of the Python or Go process
			c.Types[name] = kind
		}
	}
	for key, value := range m.Samples {
		name, _, _ := strings.Cut(key, "{")
		if !strings.HasPrefix(name, "vllm:") || name == "vllm:cache_config_info" {
			continue
		}
		if timed := strings.HasSuffix(name, "_seconds"); strings.HasSuffix(name, "_created") || timed && !strings.HasSuffix(key, " count") {
			value = 0 // only the name is compared
		}
		c.Samples[key] = value
	}
	return c
}

// count sends all requests to a server. count returns the counts after the first `alone` requests and at the end.
func count(t *testing.T, url string) (all [2]*counted) {
	t.Helper()
	some := requests()
	for i, bodies := range [][]string{some[:alone], some[alone:]} {
		statuses := askAll(t, url, bodies)
		all[i] = scrape(t, url)
		all[i].Statuses = statuses
	}
	for key := range all[1].Samples {
		if strings.HasPrefix(key, "vllm:iteration_tokens") && !strings.HasSuffix(key, " sum") {
			all[1].Samples[key] = 0
		}
	}
	return all
}

// After the same requests, the metrics have the names, types, labels and buckets of vLLM's server. The metrics also
// have the same counts. The counts cover prompt tokens, generated tokens, cached tokens, prefix cache lookups, finish
// reasons and tokens of every pass.
func TestMetricsEqualVLLM(t *testing.T) {
	if *vllmServer != "" {
		all := count(t, "http://"+*vllmServer)
		b, err := json.MarshalIndent(all, "", " ")
		if err == nil && *rewrite {
			err = os.WriteFile(metricsFile, append(b, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		compare(t, readCounted(t), all)
	}
	compare(t, readCounted(t), count(t, serve(t)))
}

// readCounted reads the recorded counts.
func readCounted(t *testing.T) (all [2]*counted) {
	t.Helper()
	b, err := os.ReadFile(metricsFile)
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// compare reports the differences between the counts of two servers.
func compare(t *testing.T, all, gots [2]*counted) {
	t.Helper()
	for i, want := range all {
		got := gots[i]
		if !slices.Equal(got.Statuses, want.Statuses) {
			t.Errorf("part %d: statuses %v, want %v", i, got.Statuses, want.Statuses)
		}
		if !maps.Equal(got.Types, want.Types) {
			t.Errorf("part %d: types %v, want %v", i, got.Types, want.Types)
		}
		for key, n := range want.Samples {
			if have, ok := got.Samples[key]; !ok || have != n {
				t.Errorf("part %d: %s is %v (there: %v), want %v", i, key, have, ok, n)
			}
		}
		for key := range got.Samples {
			if _, ok := want.Samples[key]; !ok {
				t.Errorf("part %d: %s: vLLM has none", i, key)
			}
		}
	}
}
