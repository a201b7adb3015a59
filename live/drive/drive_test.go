package drive_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/live/drive"
	"github.com/replay-llm/replay/live/measure"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/online"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a server that answers every request with the requested number of tokens, one per gap.
type fake struct {
	gap     time.Duration
	broken  int // number of first requests that are answered with an error
	enough  int // number of sent tokens after which reached is called; 0: never
	reached func()

	mu      sync.Mutex
	prompts []string
	asked   int
	sent    int // number of sent tokens
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Prompt string `json:"prompt"`
		Max    int    `json:"max_tokens"`
	}
	if r.Method == http.MethodGet { // the client opens its connections
		http.NotFound(w, r)
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.prompts = append(f.prompts, q.Prompt)
	f.asked++
	broken := f.asked <= f.broken
	f.mu.Unlock()
	if broken {
		http.Error(w, "no room", http.StatusServiceUnavailable)
		return
	}
	flusher := w.(http.Flusher)
	for i := range q.Max {
		reason := "null"
		if i == q.Max-1 {
			reason = `"length"`
		}
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"text\":\" t%d\",\"finish_reason\":%s}]}\n\n", i, reason)
		flusher.Flush()
		f.countToken()
		select {
		case <-time.After(f.gap):
		case <-r.Context().Done():
			return
		}
	}
	fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":7}}}\n\ndata: [DONE]\n\n", len(strings.Fields(q.Prompt)), q.Max)
}

func (f *fake) countToken() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sent++; f.enough > 0 && f.sent == f.enough {
		f.reached()
	}
}

// played is the result of the drive of a trace.
type played struct {
	server *fake
	result *harness.Result
	rows   []measure.Row
	trace  []string
	kept   *drive.Kept
}

// playTrace plays a trace with blocks of 4 tokens against f.
func playTrace(t testing.TB, ctx context.Context, f *fake, spec replay.Spec, trace string) played {
	t.Helper()
	server := httptest.NewServer(f)
	defer server.Close()
	engine, err := engineargs.Parse([]byte(`{}`), engineargs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	spec.Pools, spec.Speedup = replay.OnePool(engine, 1), 1
	spec.Trace = &replay.Trace{Path: "-", Detect: true, BlockTokens: 4}
	dir, p := t.TempDir(), played{server: f, kept: drive.NewKept()}
	var w *loadgen.Workload
	var run *measure.Run
	streams := replay.Streams{Stdin: strings.NewReader(trace), Opened: func(of *loadgen.Workload) { w = of }}
	p.result, err = spec.Drive(ctx, streams, replay.Live{}, func(rec *online.Recorder, clock *online.Clock) (online.Target, error) {
		prompts, err := drive.NewWords(w, "", 1)
		if err != nil {
			return nil, err
		}
		if run, err = measure.Create(dir, measure.Options{BlockTokens: w.TraceBlock, Meta: map[string]any{}}); err != nil {
			return nil, err
		}
		target, err := drive.NewTarget(drive.Options{URL: server.URL, Model: "m", Timeout: time.Minute}, prompts, run, p.kept)
		if err != nil {
			return nil, err
		}
		t.Cleanup(target.Close)
		return target.Begin(ctx, rec, clock), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	p.trace = readLines(t, filepath.Join(dir, measure.TraceFile))
	for _, line := range readLines(t, filepath.Join(dir, measure.RowsFile)) {
		var r measure.Row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		p.rows = append(p.rows, r)
	}
	return p
}

func readLines(t testing.TB, path string) (all []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for s := bufio.NewScanner(file); s.Scan(); {
		all = append(all, s.Text())
	}
	return all
}

// Equal blocks have equal text, and different blocks have different text. The measurements agree with the server's
// counts.
func TestEqualBlocksAreEqualText(t *testing.T) {
	p := playTrace(t, t.Context(), &fake{gap: 5 * time.Millisecond}, replay.Spec{}, `{"timestamp":0,"input_length":10,"output_length":3,"hash_ids":[1,2,3]}
{"timestamp":40,"input_length":12,"output_length":2,"hash_ids":[1,2,4]}
`)
	// On a busy machine, the second request may be received and answered before the first.
	slices.SortFunc(p.server.prompts, func(x, y string) int { return cmp.Compare(len(strings.Fields(x)), len(strings.Fields(y))) })
	slices.SortFunc(p.rows, func(x, y measure.Row) int { return cmp.Compare(x.Line, y.Line) })
	a, b := strings.Fields(p.server.prompts[0]), strings.Fields(p.server.prompts[1])
	if len(a) != 10 || len(b) != 12 || !slices.Equal(a[:8], b[:8]) || slices.Equal(a[8:10], b[8:10]) {
		t.Errorf("prompts %v and %v, want 8 words in common", a, b)
	}
	if len(p.rows) != 2 || p.result.Report.Completed != 2 {
		t.Fatalf("%d rows, %d in the report, want 2", len(p.rows), p.result.Report.Completed)
	}
	r := p.rows[0]
	if r.Status != measure.StatusOK || r.Input != 10 || r.Output != 3 || *r.Cached != 7 || len(r.Gaps) != 2 || r.Counted || r.Line != 1 {
		t.Errorf("%+v", r)
	}
	if first, e2e := *r.First-r.Arrival, *r.Last-r.Arrival; first < 0 || e2e < 0.0099 || *r.Last-*r.First < 0.0099 {
		t.Errorf("first token after %v s, last after %v s, want two gaps of 5 ms", first, e2e)
	}
	if next := p.rows[1]; math.Abs(*next.Due-*r.Due-0.04) > 1e-4 || next.Arrival < *next.Due {
		t.Errorf("%v and %v: due %v s apart, want 40 ms, and none early", r, next, *next.Due-*r.Due)
	}
	if want := `"input_length":10,"output_length":3,"hash_ids":[`; !strings.Contains(strings.Join(p.trace, ""), want) {
		t.Errorf("trace %s, want %s", p.trace[0], want)
	}
}

// A turn of a session waits for the previous answer. In a closed loop, a request waits for a free slot.
func TestTurnsAndClosedLoopWait(t *testing.T) {
	for name, c := range map[string]struct {
		spec  replay.Spec
		trace string
	}{
		"session": {replay.Spec{}, `{"session_id":"a","timestamp":0,"input_length":4,"output_length":3,"hash_ids":[1]}
{"session_id":"a","delay":20,"input_length":8,"output_length":1,"hash_ids":[1,2]}
`},
		"closed loop": {replay.Spec{Mode: loadgen.Concurrency, MaxInFlight: 1}, `{"timestamp":0,"input_length":4,"output_length":3,"hash_ids":[1]}
{"timestamp":0,"input_length":8,"output_length":1,"hash_ids":[1,2]}
`},
	} {
		p := playTrace(t, t.Context(), &fake{gap: 10 * time.Millisecond}, c.spec, c.trace)
		if len(p.rows) != 2 || p.rows[1].Arrival < *p.rows[0].Last {
			t.Errorf("%s: %+v: want the second after the first", name, p.rows)
		}
	}
}

// A failed request is a row with its error. Other requests are not affected.
func TestErrorsAreRows(t *testing.T) {
	p := playTrace(t, t.Context(), &fake{broken: 1}, replay.Spec{}, `{"timestamp":0,"input_length":4,"output_length":3,"hash_ids":[1]}
{"timestamp":30,"input_length":4,"output_length":3,"hash_ids":[1]}
`)
	if r := p.rows[0]; r.Status != measure.StatusError || r.Code != 503 || !strings.Contains(r.Error, "no room") {
		t.Errorf("%+v", r)
	}
	if n, first := p.kept.Failed(); n != 1 || !strings.Contains(first, "503") || p.rows[1].Status != measure.StatusOK {
		t.Errorf("%d failed, %s; %+v", n, first, p.rows[1])
	}
}

// If a run is ended, its files are complete lines, including rows of the requests in flight.
func TestEndedRunIsWhole(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var trace strings.Builder
	for i := range 20 { // ten at once, and ten an hour later
		fmt.Fprintf(&trace, `{"timestamp":%d,"input_length":4,"output_length":5000,"hash_ids":[%d]}`+"\n", i/10*3_600_000, i)
	}
	began, f := time.Now(), &fake{gap: 20 * time.Millisecond, enough: 100, reached: end}
	p := playTrace(t, ctx, f, replay.Spec{}, trace.String())
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("ended after %v, want less than 20 s: an answer takes 100 s", took)
	}
	if len(p.rows) < 2 || len(p.rows) > 10 || len(p.rows) != len(p.trace) || !p.result.Partial {
		t.Errorf("%d rows, %d lines of the trace, partial %v", len(p.rows), len(p.trace), p.result.Partial)
	}
	first := slices.IndexFunc(p.rows, func(r measure.Row) bool { return r.Line == 1 }) // rows are in the order in which requests ended
	if first < 0 {
		t.Fatal("there is no row of the first request")
	}
	if r := p.rows[first]; r.Status != measure.StatusCancelled || r.Output == 0 || !r.Counted {
		t.Errorf("%+v, want a cancelled request with what came of it", r)
	}
}

// The settings of a vLLM server are returned by their names. Other servers return no settings.
func TestSettingsOfServers(t *testing.T) {
	for metrics, want := range map[string]string{
		"vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"True\",num_gpu_blocks=\"400\"} 1.0\n": "map[block_size:16 enable_prefix_caching:true num_gpu_blocks:400 vllm_version:0.32.0]",
		"sglang:num_running_reqs 3\n": "map[]",
		"":                            "map[]",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/metrics" && metrics != "":
				fmt.Fprint(w, metrics)
			case r.URL.Path == "/version":
				fmt.Fprint(w, `{"version":"0.32.0"}`)
			default:
				http.NotFound(w, r)
			}
		}))
		if found := fmt.Sprint(drive.FindSettings(t.Context(), server.URL, nil)); found != want {
			t.Errorf("%q: %s, want %s", metrics, found, want)
		}
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	}
}

// A trace with ids for fewer tokens than declared is rejected. The error suggests the number of tokens per id, if one
// number fits.
func TestBlocksLongerThanPrompts(t *testing.T) {
	for want, w := range map[string]*loadgen.Workload{
		"": {TraceBlock: 16, Turns: []loadgen.Turn{{Input: 33, IDs: make([]uint64, 3)}, {Input: 5, IDs: make([]uint64, 1)}, {Input: 100}}},
		"a: 2 of 3 requests have more hash ids than blocks of 512 tokens in their prompts, must have the tokens of an id by --trace-block-size (16 fits all)": {Name: "a", Turns: []loadgen.Turn{{Input: 40, IDs: make([]uint64, 3)}, {Input: 100, IDs: make([]uint64, 7)}, {Input: 1, IDs: make([]uint64, 1)}}},
		"a: 1 of 2 requests have more hash ids than blocks of 64 tokens in their prompts, must have the tokens of an id by --trace-block-size":                {Name: "a", TraceBlock: 64, Turns: []loadgen.Turn{{Input: 40, IDs: make([]uint64, 3)}, {Input: 600, IDs: make([]uint64, 2)}}},
	} {
		err := drive.CheckBlocks(w)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
