package record_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/measure"
	"github.com/replay-llm/replay/live/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	piece  = "data: {\"choices\":[{\"index\":0,\"text\":\" t%d\",\"finish_reason\":null}]}\n\n"
	theEnd = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":16}}}\n\ndata: [DONE]\n\n"
)

// answer is the handler of the server behind the proxy.
func answer(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Prompt json.RawMessage
		Max    int `json:"max_tokens"`
		Gap    int
		Stream bool
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	w.Header().Set("X-Odd", "as it is")
	if !q.Stream {
		fmt.Fprintf(w, `{"choices":[{"text":"so \"usage\":{} it is"}],"usage":{"prompt_tokens":3,"completion_tokens":%d}}`, q.Max)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for i := range q.Max {
		fmt.Fprintf(w, piece, i)
		w.(http.Flusher).Flush()
		select {
		case <-time.After(time.Duration(q.Gap) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	fmt.Fprintf(w, theEnd, 40, q.Max)
}

// rig is a proxy in front of a server.
type rig struct {
	direct, url string
	server      *httptest.Server
	dir         string
	client      *http.Client
	stop        func()
}

func newRig(t testing.TB, o record.Options, run measure.Options, serve http.HandlerFunc) *rig {
	t.Helper()
	server := httptest.NewServer(serve)
	upstream, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{direct: server.URL, server: server, dir: t.TempDir(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 14}}}
	run.BlockTokens, run.Meta = 16, map[string]any{}
	o.Upstreams, o.BlockTokens, o.BytesPerToken, o.Log = []*url.URL{upstream}, 16, 4, slog.New(slog.DiscardHandler)
	if o.Key, err = record.ReadKey(""); err != nil {
		t.Fatal(err)
	}
	kept, err := measure.Create(r.dir, run)
	if err != nil {
		t.Fatal(err)
	}
	p, err := record.New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- p.Into(kept).Serve(l) }()
	r.stop = func() {
		r.client.CloseIdleConnections()
		ctx, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer end()
		if err := p.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	}
	return r
}

func (r *rig) post(t *testing.T, at, body string) (status int, header http.Header, text string) {
	t.Helper()
	response, err := r.client.Post(at+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(all)
}

// rows returns the recorded rows and the lines of the trace.
func (r *rig) rows(t *testing.T, part string) (rows []measure.Row, trace []string) {
	t.Helper()
	for _, name := range []string{measure.RowsFile, measure.TraceFile} {
		file, err := os.Open(filepath.Join(r.dir, part, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for s := bufio.NewScanner(file); s.Scan(); {
			if name == measure.TraceFile {
				trace = append(trace, s.Text())
				continue
			}
			var row measure.Row
			if err := json.Unmarshal(s.Bytes(), &row); err != nil {
				t.Fatalf("%v in %s", err, s.Text())
			}
			rows = append(rows, row)
		}
	}
	return rows, trace
}

// The client gets the same bytes as without the proxy, and the record has the same requests.
func TestPassesBytesThrough(t *testing.T) {
	r := newRig(t, record.Options{}, measure.Options{}, answer)
	bodies := []string{
		`{"prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17],"stream":true,"max_tokens":3,"gap":10}`,
		`{"prompt":"a b c","max_tokens":2}`,
		`{"prompt"`,
	}
	for _, body := range bodies {
		status, header, text := r.post(t, r.url, body)
		status2, header2, text2 := r.post(t, r.direct, body)
		if status != status2 || text != text2 || header.Get("X-Odd") != header2.Get("X-Odd") || header.Get("Content-Type") != header2.Get("Content-Type") {
			t.Errorf("%s: %d %v %q by way of the proxy, %d %v %q without it", body, status, header, text, status2, header2, text2)
		}
	}
	if response, err := r.client.Get(r.url + "/nowhere"); err != nil || response.Body.Close() != nil {
		t.Error(err)
	}
	r.stop()
	rows, trace := r.rows(t, "")
	if len(rows) != 3 || len(trace) != 3 {
		t.Fatalf("%d rows, %d lines of the trace, want 3", len(rows), len(trace))
	}
	a := rows[0]
	if a.Status != "ok" || !a.Streamed || a.Input != 40 || a.Output != 3 || *a.Cached != 16 || len(a.Gaps) != 2 || *a.Last-*a.First < 0.005 || *a.First < a.Arrival {
		t.Errorf("%+v", a)
	}
	if b := rows[1]; b.Status != "ok" || b.Streamed || b.Input != 3 || b.Output != 2 || b.First != nil || b.Last == nil {
		t.Errorf("%+v", b)
	}
	if c := rows[2]; c.Status != "error" || c.Code != 400 {
		t.Errorf("%+v", c)
	}
}

// Prompts with the same beginning have the same first hashes. The record has none of their text. A different key
// makes different hashes.
func TestPromptsAreHashed(t *testing.T) {
	var seen []string
	for range 2 {
		r := newRig(t, record.Options{}, measure.Options{}, answer)
		shared := strings.Repeat("secret ", 20)
		r.post(t, r.url, fmt.Sprintf(`{"prompt":"%sone","max_tokens":1}`, shared))
		r.post(t, r.url, fmt.Sprintf(`{"prompt":"%stwo","max_tokens":1}`, shared))
		r.stop()
		for _, name := range []string{measure.RowsFile, measure.TraceFile, measure.MetaFile} {
			if text, err := os.ReadFile(filepath.Join(r.dir, name)); err != nil || bytes.Contains(text, []byte("secret")) {
				t.Errorf("%s: %v, or the prompt is in it", name, err)
			}
		}
		_, trace := r.rows(t, "")
		seen = append(seen, trace...)
	}
	first := func(line string) string {
		_, ids, _ := strings.Cut(line, "[")
		id, _, _ := strings.Cut(strings.TrimSuffix(ids, "]}"), ",")
		return id
	}
	if first(seen[0]) != first(seen[1]) || first(seen[0]) == first(seen[2]) {
		t.Errorf("%q: want the first ids alike of the first two, and others with another key", seen)
	}
}

// A client that disconnects, a server that aborts, and a proxy that shuts down each produce a complete row with the
// reason.
func TestHalfAnswers(t *testing.T) {
	r := newRig(t, record.Options{}, measure.Options{}, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Query().Has("break") {
			fmt.Fprintf(w, piece, 0)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		answer(w, q)
	})
	const long = `{"prompt":"a","stream":true,"max_tokens":1000,"gap":10}`
	ctx, leave := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer leave()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/completions", strings.NewReader(long))
	if err != nil {
		t.Fatal(err)
	}
	if response, err := r.client.Do(q); err == nil {
		_, _ = io.ReadAll(response.Body)
		response.Body.Close()
	}
	if response, err := r.client.Post(r.url+"/v1/completions?break", "", strings.NewReader(long)); err == nil {
		_, _ = io.ReadAll(response.Body)
		response.Body.Close()
	}
	response, err := r.client.Post(r.url+"/v1/completions", "", strings.NewReader(long))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for pieces := bufio.NewReader(response.Body); ; {
		if line, err := pieces.ReadString('\n'); err != nil || strings.Contains(line, " t2") { // wait for the third piece, so that the first pieces are recorded
			break
		}
	}
	r.stop()
	rows, trace := r.rows(t, "")
	if len(rows) != 3 || len(trace) != 3 {
		t.Fatalf("%+v, want three rows", rows)
	}
	slices.SortFunc(rows, func(a, b measure.Row) int { return cmp.Compare(a.Arrival, b.Arrival) })
	if rows[0].Status != "cancelled" || rows[1].Status != "error" || rows[2].Status != "cancelled" || rows[2].Output == 0 {
		t.Errorf("%+v", rows)
	}
}

// Each part of a run is a complete run.
func TestParts(t *testing.T) {
	r := newRig(t, record.Options{}, measure.Options{PartBytes: 1}, answer)
	for n := 1; n <= 2; n++ {
		r.post(t, r.url, `{"prompt":"a","max_tokens":1}`)
		part := fmt.Sprintf("part-%04d", n)
		poll.Until(t, part+" is written", func() bool { // otherwise both requests would be in one write
			text, err := os.ReadFile(filepath.Join(r.dir, part, measure.TraceFile))
			return err == nil && len(text) > 0
		})
	}
	r.stop()
	for _, part := range []string{"part-0001", "part-0002"} {
		if rows, trace := r.rows(t, part); len(rows) != 1 || len(trace) != 1 {
			t.Errorf("%s: %d rows", part, len(rows))
		}
	}
}

// A key has at least 32 bytes. The same key makes the same hashes. A key file that other users may read causes a
// warning.
func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	for text, want := range map[string]string{"": "0 bytes, must be a key of at least 32", strings.Repeat("k", 31): "31 bytes", strings.Repeat("k", 32): ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := record.ReadKey(path)
		if want == "" && (err != nil || string(key) != text) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %v, want %q", len(text), err, want)
		}
	}
	for _, none := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := record.ReadKey(none); err == nil || !strings.Contains(err.Error(), none) {
			t.Errorf("%s: %v", none, err)
		}
	}
	if text := record.WarnOfKey(path); text != "" {
		t.Errorf("%s, of mode 0600", text)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if text := record.WarnOfKey(path); runtime.GOOS != "windows" && !strings.Contains(text, "mode 0640") {
		t.Errorf("%q, want a warning", text)
	}
	if text := record.WarnOfKey(""); text != "" {
		t.Errorf("%s, without a file", text)
	}
}
