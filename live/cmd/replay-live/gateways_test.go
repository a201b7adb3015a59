package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
)

var gateways = flag.String("gateways", "", "the `directory` of vllm-router, vLLM's own router (make gateways)")

// gatewayRequests is the number of requests to a gateway. The requests belong to gatewayGroups groups; the prompts of
// a group share 600 tokens.
const gatewayRequests, gatewayGroups = 200, 10

// vLLM's router works with a fleet of simulated vLLM servers. Every request is answered, and each policy distributes
// the requests as specified. The policy cache_aware has a higher hit rate than round_robin.
func TestVLLMRouter(t *testing.T) {
	if *gateways == "" {
		t.Skip("skipped: only with -gateways (make gateways)")
	}
	rates := map[string]float64{}
	for _, policy := range []string{"round_robin", "power_of_two", "cache_aware"} {
		fleet := newFleet(t, 8)
		requests, rate := fleet.askThrough(t, startRouter(t, fleet, "--policy="+policy))
		t.Logf("%-14s requests of each server %v, prefix-cache hit rate %.3f", policy, requests, rate)
		sum := 0
		for _, n := range requests {
			sum += n
			if n == 0 || policy == "round_robin" && n != gatewayRequests/len(requests) {
				t.Errorf("%s: servers have had %v requests", policy, requests)
			}
		}
		if sum != gatewayRequests {
			t.Errorf("%s: %d requests ended well, want %d", policy, sum, gatewayRequests)
		}
		rates[policy] = rate
	}
	if rates["cache_aware"] < rates["round_robin"]+0.1 {
		t.Errorf("prefix-cache hit rates %v, want cache_aware to find more", rates)
	}
}

// The policy kv_aware of vLLM's router follows the KV events of the servers: a prompt goes to the server that has
// cached it. The servers list the addresses of their events at vLLM's path.
func TestVLLMRouterFollowsEvents(t *testing.T) {
	if *gateways == "" {
		t.Skip("skipped: only with -gateways (make gateways)")
	}
	events, replay := freePorts(t), freePorts(t)
	fleet := newFleet(t, 3, fmt.Sprintf(`--kv-events-config={"enable_kv_cache_events":true,"endpoint":"tcp://127.0.0.1:%d","replay_endpoint":"tcp://127.0.0.1:%d"}`, events, replay))
	args := []string{"--policy=kv_aware", "--kv-event-block-size=16", "--kv-event-model=tiny"}
	for i, url := range fleet.urls {
		var told map[string]struct{ Endpoint string }
		if err := json.Unmarshal([]byte(getText(t, url+"/kv_event_sources")), &told); err != nil || told["0"].Endpoint != fmt.Sprintf("tcp://127.0.0.1:%d", events+i) {
			t.Errorf("server %d: sources %v, %v", i, told, err)
		}
		args = append(args, "--kv-event-source", url+"="+told["0"].Endpoint, "--kv-event-replay-source", fmt.Sprintf("%s=tcp://127.0.0.1:%d", url, replay+i))
	}
	url := startRouter(t, fleet, args...)
	prompt := strings.TrimSuffix(strings.Repeat("7,8,9,", 100), ",")
	ask := func() string {
		_, answer := postJSON(t, url+"/v1/completions", `{"model":"tiny","prompt":[`+prompt+`],"max_tokens":3}`)
		return answer
	}
	if answer := ask(); !strings.Contains(answer, `"cached_tokens":0`) {
		t.Errorf("the first: %s", answer)
	}
	poll.Until(t, "the router knows of the blocks", func() bool { return strings.Contains(ask(), `"cached_tokens":288`) })
	for range 20 {
		if answer := ask(); !strings.Contains(answer, `"cached_tokens":288`) {
			t.Errorf("it went to another server: %s", answer)
		}
	}
}

// getText returns the body of a page.
func getText(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fleetOf is the servers of a process.
type fleetOf struct{ urls []string }

func newFleet(t *testing.T, size int, more ...string) *fleetOf {
	t.Helper()
	_, urls := startFleet(t, size, append([]string{"--port=0", "--fleet=" + strconv.Itoa(size), "--served-model-name=tiny"}, more...)...)
	return &fleetOf{urls}
}

// startRouter starts vLLM's router for a fleet, and returns its URL.
func startRouter(t *testing.T, f *fleetOf, more ...string) (url string) {
	t.Helper()
	port, metrics := anyPort(t), anyPort(t)
	args := append([]string{"--worker-urls"}, f.urls...)
	args = append(args, "--host=127.0.0.1", "--port="+strconv.Itoa(port), "--prometheus-port="+strconv.Itoa(metrics))
	ctx, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(*gateways, "vllm-router"), append(args, more...)...)
	var out transcript
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		end()
		t.Fatal(err)
	}
	t.Cleanup(func() { end(); _ = cmd.Wait() })
	url = "http://127.0.0.1:" + strconv.Itoa(port)
	if !poll.Wait(func() bool {
		r, err := http.Get(url + "/health")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	}) {
		t.Fatalf("vllm-router does not get up: %s", &out)
	}
	return url
}

func anyPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// askThrough sends requests to a gateway, eight at once. askThrough returns the number of answers of each server, and
// the cached fraction of the prompts' tokens.
func (f *fleetOf) askThrough(t *testing.T, url string) (requests []int, hitRate float64) {
	t.Helper()
	words := func(group, n int, seed uint64) string {
		r := rand.New(rand.NewPCG(uint64(group), seed))
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "%c ", 'a'+r.IntN(26)) // one token each
		}
		return b.String()
	}
	turn := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range turn {
				prompt := words(i%gatewayGroups, 600, 0) + words(i%gatewayGroups, 40, uint64(i)+1)
				body, _ := json.Marshal(map[string]any{"model": "tiny", "prompt": prompt, "max_tokens": 20, "ignore_eos": true})
				if status, answer := postJSON(t, url+"/v1/completions", string(body)); status != http.StatusOK || !strings.Contains(answer, `"completion_tokens":20`) {
					t.Errorf("%d %s", status, answer)
				}
			}
		})
	}
	for i := range gatewayRequests {
		turn <- i
	}
	close(turn)
	wg.Wait()
	const labels = `{engine="0",model_name="tiny"} `
	var hits, queries float64
	for _, server := range f.urls {
		n, _ := strconv.ParseFloat(scrapeText(t, server, `vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} `), 64)
		requests = append(requests, int(n))
		h, _ := strconv.ParseFloat(scrapeText(t, server, "vllm:prefix_cache_hits_total"+labels), 64)
		q, _ := strconv.ParseFloat(scrapeText(t, server, "vllm:prefix_cache_queries_total"+labels), 64)
		hits, queries = hits+h, queries+q
	}
	return requests, hits / queries
}
