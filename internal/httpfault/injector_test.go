package httpfault

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
)

// rig is a test server that answers with a document, or with a stream of five tokens.
type rig struct {
	*Injector
	url     string
	mu      sync.Mutex
	counts  map[string]int
	crashes atomic.Int32
}

// counted returns the number of injected faults of a kind.
func (r *rig) counted(kind string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[kind]
}

func newRig(t *testing.T, faults string) *rig {
	t.Helper()
	r := &rig{counts: map[string]int{}}
	r.Injector = &Injector{
		Count: func(kind string) { r.mu.Lock(); r.counts[kind]++; r.mu.Unlock() },
		Crash: func() { r.crashes.Add(1) },
		Fail: func(w http.ResponseWriter, status, retry int, message string) {
			w.Header().Set("Retry-After", fmt.Sprint(retry))
			http.Error(w, message, status)
		},
	}
	f, err := Parse([]byte(faults))
	if err != nil {
		t.Fatal(err)
	}
	r.Set(f)
	s := httptest.NewServer(r.Wrap(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Query().Has("stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			if strings.Contains(q.URL.Path, "chat") {
				_, _ = io.WriteString(w, "data: role\n\ndata: 0\n\n")
			} else {
				_, _ = io.WriteString(w, "data: 0\n\n")
			}
			for i := range 4 {
				if _, err := fmt.Fprintf(w, "data: %d\n\n", i+1); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
			}
			return
		}
		_, _ = io.WriteString(w, `{"text":"\"completion_tokens\":5","usage":{"completion_tokens":5}}`)
	})))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// ask returns the status and body of an answer, and the error of a connection that breaks.
func (r *rig) ask(t *testing.T, path string) (status int, body string, err error) {
	t.Helper()
	a, err := http.Post(r.url+path, "application/json", strings.NewReader("{}"))
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, string(b), err
}

// Equal seeds inject equal faults, and different seeds inject different faults. The share of errors matches the
// rates.
func TestErrorsFollowTheSeed(t *testing.T) {
	statuses := func(seed int) (all []int) {
		r := newRig(t, fmt.Sprintf(`{"seed":%d,"error_rates":{"429":0.2,"503":0.1}}`, seed))
		for range 300 {
			status, _, err := r.ask(t, "/v1/completions")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, status)
		}
		if failed := len(all) - count(all, 200); failed != r.counted(Error) {
			t.Errorf("%d errors are counted, want %d", r.counted(Error), failed)
		}
		return all
	}
	one := statuses(1)
	if again := statuses(1); !slices.Equal(one, again) {
		t.Error("one seed has two sequences")
	}
	if slices.Equal(one, statuses(2)) {
		t.Error("two seeds have one sequence")
	}
	for status, want := range map[int]int{200: 210, 429: 60, 503: 30} {
		if n := count(one, status); n < want-25 || n > want+25 {
			t.Errorf("status %d: %d of 300, want about %d", status, n, want)
		}
	}
}

func count(all []int, value int) (n int) {
	for _, one := range all {
		if one == value {
			n++
		}
	}
	return n
}

// Streams are cut after the given number of tokens, not counting the event with the role. Documents are cut in the
// middle.
func TestCut(t *testing.T) {
	r := newRig(t, `{"cut_rate":1,"cut_after_tokens":2}`)
	for path, want := range map[string]string{
		"/v1/completions?stream": "data: 0\n\ndata: 1\n\n", "/v1/chat/completions?stream": "data: role\n\ndata: 0\n\ndata: 1\n\n",
		"/v1/completions": `{"text":"\"completion_tokens\":5"`[:len(`{"text":"\"completion_tokens\":5","usage":{"completion_tokens":5}}`)/2],
	} {
		if _, body, err := r.ask(t, path); err == nil || body != want {
			t.Errorf("%s: %q, %v, want %q and a broken connection", path, body, err, want)
		}
	}
	if r.counted(Cut) != 3 {
		t.Errorf("%d are counted, want 3", r.counted(Cut))
	}
}

// First bytes are delayed, streams pause, and usage is wrong. The generated text is unchanged.
func TestDelaysAndUsage(t *testing.T) {
	for faults, least := range map[string]time.Duration{`{"slow_rate":1,"slow_ms":80}`: 80 * time.Millisecond, `{"stall_rate":1,"stall_ms":90,"stall_after_tokens":3}`: 90 * time.Millisecond} {
		r, began := newRig(t, faults), time.Now()
		if _, body, err := r.ask(t, "/v1/completions?stream"); err != nil || strings.Count(body, "data") != 5 || time.Since(began) < least {
			t.Errorf("%s: %q after %v: %v", faults, body, time.Since(began), err)
		}
	}
	r := newRig(t, `{"wrong_usage_rate":1}`)
	if _, body, err := r.ask(t, "/generate"); body != `{"text":"\"completion_tokens\":5","usage":{"completion_tokens":15}}` || err != nil {
		t.Errorf("%s: %v", body, err)
	}
}

// A server rejects all requests with 503 while it loads, and answers after that.
func TestLoading(t *testing.T) {
	r := newRig(t, `{"loading_s":0.3,"retry_after_s":7}`)
	a, err := http.Get(r.url + "/health")
	if err != nil || a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "7" {
		t.Errorf("%v: %v", a, err)
	}
	a.Body.Close()
	poll.Until(t, "the server is ready", func() bool {
		status, _, err := r.ask(t, "/v1/completions")
		return err == nil && status == http.StatusOK
	})
	if r.counted(Loading) < 2 {
		t.Errorf("%d rejections are counted", r.counted(Loading))
	}
}

// The request with the given number ends the server. Requests to other paths are not counted.
func TestCrash(t *testing.T) {
	r := newRig(t, `{"crash_after_requests":2}`)
	for i, want := range []int{200, 200, 0} {
		path := []string{"/v1/completions", "/tokenize", "/v1/completions"}[i]
		if status, _, err := r.ask(t, path); status != want || (err != nil) != (want == 0) {
			t.Errorf("%s: %d, %v, want %d", path, status, err, want)
		}
	}
	if r.crashes.Load() == 0 {
		t.Error("it did not crash")
	}
}

// Clients on loopback and authenticated clients can replace faults at run time.
func TestReplacedAtRunTime(t *testing.T) {
	r := newRig(t, `{}`)
	post := func(body, kind, from string) int {
		q, w := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body)), httptest.NewRecorder()
		q.Header.Set("Content-Type", kind)
		q.RemoteAddr = from
		r.Wrap(nil).ServeHTTP(w, q)
		return w.Code
	}
	const here, there, kind = "127.0.0.1:9", "192.0.2.1:9", "application/json"
	for _, test := range []struct {
		body, kind, from string
		proven           bool
		want             int
	}{
		{`{"cut_rate":1}`, kind, there, false, 403}, {`{"cut_rate":1}`, "text/plain", here, false, 415}, {`{"cut_rate":2}`, kind, here, false, 400}, {`{`, kind, here, false, 400},
		{`{"error_rates":{"500":1}}`, kind, here, false, 200}, {`{"error_rates":{"501":1}}`, kind, there, true, 200},
	} {
		r.Proven = test.proven
		if got := post(test.body, test.kind, test.from); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
	if status, _, _ := r.ask(t, "/v1/completions"); status != 501 {
		t.Errorf("status %d, want 501", status)
	}
	if r.Faults().CutRate != 0 {
		t.Error("a refused request has replaced faults")
	}
}

// The seed determines which batches of KV events are lost. All batches are delayed.
func TestKV(t *testing.T) {
	r := newRig(t, `{"kv_lost_rate":0.5,"kv_late_ms":3}`)
	missed := 0
	for range 100 {
		lost, late := r.KV()
		if lost {
			missed++
		} else if late != 3*time.Millisecond {
			t.Fatalf("late by %v", late)
		}
	}
	if missed < 30 || missed > 70 || r.counted(KVLost) != missed || r.counted(KVLate) != 100-missed {
		t.Errorf("%d lost, counted %d and %d delayed", missed, r.counted(KVLost), r.counted(KVLate))
	}
}

// Errors name the key, its value and the valid range.
func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "faults.json")
	if err := os.WriteFile(file, []byte(`{"slow_ms":-1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"@" + file: file + ": slow_ms is -1, must be 0 to 3.6e+06", "@" + file + "x": "no such file", `[]`: "must be a JSON object of faults",
		`{"cut_rat":1}`: `no key "cut_rat", did you mean cut_rate?`, `{"error_rates":{"200":1}}`: `status is "200", must be 400 to 599`,
		`{"error_rates":{"500":1.5}}`: "rate of 500 is 1.5, must be 0 to 1", `{"queue_status":500}`: "queue_status is 500, must be 429 or 503", `{"cut_rate":"a"}`: "cut_rate",
	} {
		if _, err := Read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
