package record_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/measure"
	"github.com/replay-llm/replay/live/record"
)

// dial opens a raw connection to the proxy.
func (r *rig) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// If the server is down, the client gets an error in OpenAI's format, and the record gets a row.
func TestUpstreamIsDead(t *testing.T) {
	r := newRig(t, record.Options{}, measure.Options{}, answer)
	r.server.Close()
	status, header, text := r.post(t, r.url, `{"prompt":"a","max_tokens":1}`)
	var body struct {
		Error struct {
			Message, Type string
			Code          int
		}
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil || status != http.StatusBadGateway || body.Error.Code != status ||
		body.Error.Type != "upstream_error" || !strings.HasPrefix(body.Error.Message, "no answer from 127.0.0.1:") || header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %s, %v", status, text, err)
	}
	r.stop()
	if rows, _ := r.rows(t, ""); len(rows) != 1 || rows[0].Status != "error" || rows[0].Code != 502 || !strings.Contains(rows[0].Error, "refused") {
		t.Errorf("%+v", rows)
	}
}

// Compressed answers pass unchanged. Answers with gzip are also read.
func TestPackedAnswers(t *testing.T) {
	r := newRig(t, record.Options{}, measure.Options{}, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", q.URL.Query().Get("as"))
		var out io.Writer = w
		flush := w.(http.Flusher).Flush
		if q.URL.Query().Get("as") == "gzip" {
			z := gzip.NewWriter(w)
			defer z.Close()
			out, flush = z, func() { _ = z.Flush(); w.(http.Flusher).Flush() }
		}
		for i := range 3 {
			fmt.Fprintf(out, piece, i)
			flush()
			time.Sleep(20 * time.Millisecond)
		}
		fmt.Fprintf(out, theEnd, 40, 3)
	})
	for _, as := range []string{"gzip", "br", "gzip&half"} {
		q, err := http.NewRequest(http.MethodPost, r.url+"/v1/completions?as="+as, strings.NewReader(`{"prompt":"a","stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Accept-Encoding", "gzip, br") // without this header the transport would decompress the answer
		response, err := r.client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if packed := bytes.HasPrefix(text, []byte{0x1f, 0x8b}); err != nil || packed != strings.HasPrefix(as, "gzip") || response.Header.Get("Content-Encoding") != as[:min(4, len(as))] {
			t.Errorf("%s: %q, %v, %v", as, text, response.Header, err)
		}
	}
	r.stop()
	rows, _ := r.rows(t, "")
	if g := rows[0]; g.Status != "ok" || g.Output != 3 || g.Input != 40 || len(g.Gaps) != 2 || g.Gaps[0] < 0.01 {
		t.Errorf("%+v", g)
	}
	if b := rows[1]; b.Status != "error" || !strings.Contains(b.Error, "packed as br") {
		t.Errorf("%+v", b)
	}
}

// Each piece is forwarded when it arrives, without waiting for the next piece.
func TestPiecesPassAtOnce(t *testing.T) {
	seen := make(chan struct{})
	r := newRig(t, record.Options{}, measure.Options{}, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, piece, i)
			w.(http.Flusher).Flush()
			select {
			case <-seen:
			case <-time.After(5 * time.Second):
				t.Errorf("piece %d is not there", i)
			}
		}
		fmt.Fprintf(w, theEnd, 4, 3)
	})
	response, err := r.client.Post(r.url+"/v1/chat/completions", "", strings.NewReader(`{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `"text"`) {
			seen <- struct{}{}
		}
	}
	response.Body.Close()
	r.stop()
	if rows, _ := r.rows(t, ""); len(rows) != 1 || rows[0].Status != "ok" {
		t.Errorf("%+v", rows)
	}
}

// HTTP/1.0 has no chunked encoding, so the stream ends with the connection.
func TestOldClients(t *testing.T) {
	r := newRig(t, record.Options{}, measure.Options{}, answer)
	c := r.dial(t)
	const body = `{"prompt":"a","stream":true,"max_tokens":2}`
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	text, err := io.ReadAll(c)
	if err != nil || !bytes.HasPrefix(text, []byte("HTTP/1.0 200")) || !bytes.HasSuffix(text, []byte("data: [DONE]\n\n")) || bytes.Contains(text, []byte("chunked")) {
		t.Errorf("%q, %v", text, err)
	}
	c.Close()
	r.stop()
	if rows, _ := r.rows(t, ""); len(rows) != 1 || rows[0].Status != "ok" || rows[0].Output != 2 {
		t.Errorf("%+v", rows)
	}
}

// Requests with other paths or methods and upgraded connections are forwarded, and produce no rows.
func TestOthersPass(t *testing.T) {
	r := newRig(t, record.Options{}, measure.Options{}, func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Upgrade") == "" {
			fmt.Fprintf(w, "%s %s", q.Method, q.URL)
			return
		}
		c, both, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := both.ReadString('\n')
		fmt.Fprintf(c, "you said %s", line)
	})
	for _, ask := range []string{"GET /v1/models", "DELETE /v1/completions/7?x=%2F", "GET /metrics", "POST /v1/embeddings"} {
		method, path, _ := strings.Cut(ask, " ")
		q, err := http.NewRequest(method, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := r.client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if response.Body.Close(); err != nil || string(text) != ask {
			t.Errorf("%s, %v, want %s", text, err, ask)
		}
	}
	c := r.dial(t)
	fmt.Fprintf(c, "GET /v1/realtime HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(c)
	response, err := http.ReadResponse(in, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", response, err)
	}
	fmt.Fprintf(c, "hello\n")
	if line, err := in.ReadString('\n'); err != nil || line != "you said hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	c.Close()
	r.stop()
	if rows, _ := r.rows(t, ""); len(rows) != 0 {
		t.Errorf("%+v, want none", rows)
	}
}

// Bodies that are not JSON or too large to hash are forwarded and produce rows. The rows have the prompt tokens that
// the server reports, and unique prompt blocks.
func TestOddBodies(t *testing.T) {
	r := newRig(t, record.Options{}, measure.Options{}, func(w http.ResponseWriter, q *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, q.Body)
		fmt.Fprintf(w, `{"choices":[{"text":"%d %x %v"}],"usage":{"prompt_tokens":33,"completion_tokens":1}}`, n, sum.Sum(nil), err)
	})
	for _, body := range []string{
		`{"prompt":"` + strings.Repeat("large ", 4<<20) + `","max_tokens":1}`, // a body of 24 MB
		"no JSON", "", `{"prompt":["a","b"]}`, `{"prompt":{"of":7}}`, "\x00\xff\xfe", `{"messages":"none"}`,
	} {
		_, _, text := r.post(t, r.url, body)
		if want := fmt.Sprintf("%d %x <nil>", len(body), sha256.Sum256([]byte(body))); !strings.Contains(text, want) {
			t.Errorf("%.200s, want %s", text, want)
		}
	}
	r.stop()
	rows, trace := r.rows(t, "")
	if len(rows) != 7 || len(trace) != 7 {
		t.Fatalf("%d rows, want 7", len(rows))
	}
	ids := map[string]bool{}
	for i, row := range rows {
		if row.Status != "ok" || row.Input != 33 || row.Output != 1 || ids[trace[i][strings.Index(trace[i], "hash_ids"):]] {
			t.Errorf("%+v %s", row, trace[i])
		}
		ids[trace[i][strings.Index(trace[i], "hash_ids"):]] = true
	}
}

// One connection of a client carries several requests, and so does the connection to the server.
func TestConnectionsLast(t *testing.T) {
	from := map[string]bool{}
	r := newRig(t, record.Options{}, measure.Options{}, func(w http.ResponseWriter, q *http.Request) {
		from[q.RemoteAddr] = true
		answer(w, q)
	})
	c := r.dial(t)
	in := bufio.NewReader(c)
	const body = `{"prompt":"a","stream":true,"max_tokens":2}`
	for range 50 {
		fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(response.Body); err != nil || !bytes.HasSuffix(text, []byte("[DONE]\n\n")) {
			t.Fatalf("%q, %v", text, err)
		}
	}
	c.Close()
	r.stop()
	if rows, _ := r.rows(t, ""); len(rows) != 50 || len(from) != 1 {
		t.Errorf("%d rows, connections from %v, want 50 and one", len(rows), from)
	}
}

// A client that disconnects during its request makes a cancelled request, and its body is freed.
func TestClientLeavesWhileItSends(t *testing.T) {
	r := newRig(t, record.Options{}, measure.Options{}, answer)
	c := r.dial(t)
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n{")
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "100") { // the server reads the body
		t.Fatalf("%q, %v", line, err)
	}
	c.Close()
	r.stop()
	if rows, _ := r.rows(t, ""); len(rows) != 1 || rows[0].Status != "cancelled" {
		t.Errorf("%+v, want a cancelled request", rows)
	}
}
