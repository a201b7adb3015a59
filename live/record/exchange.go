package record

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/replay-llm/replay/live/measure"
)

// exchange is a request and its answer.
type exchange struct {
	proxy    *Proxy
	upstream *url.URL
	client   context.Context // ends when the client disconnects
	measured bool
	failed   error // why the answer is missing or incomplete

	row    measure.Row
	mu     sync.Mutex // protects the fields of the request, which may arrive during the answer
	came   time.Time  // arrival of the end of the request, or of its beginning until then
	body   []byte     // body so far; nil after it was passed to a hasher or dropped
	whole  bool       // the whole body has arrived
	chat   bool
	asked  int         // max_tokens of the request
	prompt chan prompt // receives the hashed prompt; nil: the prompt stays unknown
	answer *measure.Answer
	reader reader // reads the bytes of the answer
	pieces int    // pieces of the answer
}

// begin starts the measurement of a request, and records its body during forwarding.
func (x *exchange) begin(r *http.Request) {
	x.measured, x.came = true, time.Now()
	x.proxy.active.Add(1)
	x.chat = strings.HasSuffix(r.URL.Path, "/chat/completions")
	x.row = measure.Row{ID: cmp.Or(r.Header.Get("X-Request-Id"), strconv.FormatInt(x.came.UnixNano(), 36)), Status: measure.StatusOK}
	r.Body = &passing{from: r.Body, see: x.addRequest}
}

// passing is a body that the proxy records and forwards at once.
type passing struct {
	from  io.ReadCloser
	see   func(p []byte, err error)
	ended bool
}

// Read reads until the end of the body, and never after it. A request body is closed when its answer begins. If the
// transport reads again to verify the end, an error would abort the answer.
func (b *passing) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	n, err := b.from.Read(p)
	b.ended = err == io.EOF
	b.see(p[:n], err)
	return n, err
}

func (b *passing) Close() error { return b.from.Close() }

// addRequest adds a piece of the body. addRequest drops a body that is too long, or that exceeds the total limit.
func (x *exchange) addRequest(p []byte, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.proxy.hashers
	if before := cap(x.body); len(x.body) <= maxBody && !x.whole {
		x.body = append(x.body, p...)
		h.held.Add(int64(cap(x.body) - before))
	}
	if err != io.EOF || x.whole {
		return
	}
	x.came, x.whole = time.Now(), true
	x.asked = findNumber(x.body, `"max_tokens":`, `"max_completion_tokens":`)
	if len(x.body) > maxBody || h.held.Load() > maxHeld {
		x.dropBody()
	}
}

// hashPrompt queues the prompt for hashing. hashPrompt is called after the answer has begun, so that the client does
// not wait.
func (x *exchange) hashPrompt() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.whole || x.body == nil {
		return
	}
	done := make(chan prompt, 1)
	select {
	case x.proxy.hashers.jobs <- job{x.body, x.chat, done}:
		x.prompt, x.body = done, nil
	default:
		x.dropBody()
	}
}

func (x *exchange) dropBody() {
	x.proxy.hashers.held.Add(-int64(cap(x.body)))
	x.body = nil
}

// findNumber returns the integer that follows one of the keys, or 0.
func findNumber(body []byte, keys ...string) int {
	for _, key := range keys {
		if i := bytes.LastIndex(body, []byte(key)); i >= 0 {
			text := bytes.TrimLeft(body[i+len(key):], " ")
			end := bytes.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
			if n, err := strconv.Atoi(string(text[:max(end, 0)])); err == nil {
				return n
			}
		}
	}
	return 0
}

// beginAnswer starts to record the answer during forwarding.
func (x *exchange) beginAnswer(response *http.Response) {
	o := &x.proxy.o
	x.row.Code = response.StatusCode
	if x.row.Server = response.Header.Get(o.ServerHeader); o.ServerHeader == "" && len(o.Upstreams) > 1 {
		x.row.Server = x.upstream.Host
	}
	x.row.Streamed = strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream")
	x.answer = measure.NewAnswer(x.row.Streamed)
	x.reader.init(response.Header.Get("Content-Encoding"), x.answer)
	response.Body = &passing{from: response.Body, see: func(p []byte, err error) {
		if len(p) > 0 {
			x.reader.addBytes(p)
			if x.pieces++; x.pieces == 2 {
				x.hashPrompt()
			}
		}
		if err == io.EOF {
			x.reader.end()
			x.answer.End()
		} else if err != nil {
			x.failed = err
		}
	}}
}

// end adds the request to the run. end waits until the prompt is hashed.
func (x *exchange) end() {
	run := x.proxy.run
	defer x.proxy.active.Add(-1)
	x.hashPrompt()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.row.Asked, x.row.Arrival = x.asked, run.Since(x.came)
	if x.prompt != nil {
		p := <-x.prompt
		x.row.Input, x.row.Blocks = p.tokens, p.blocks
	} else {
		x.dropBody()
	}
	if x.answer != nil {
		x.reader.end()
		x.row.SetAnswer(x.answer, run.Start)
	}
	switch {
	case x.client.Err() != nil && (x.answer == nil || !x.answer.Done):
		x.row.Status = measure.StatusCancelled
	case x.failed == nil && x.row.Code != http.StatusOK:
		x.failed = errors.New(http.StatusText(x.row.Code))
	case x.failed == nil && x.answer.Err != "":
		x.failed = errors.New(x.answer.Err)
	case x.failed == nil && x.reader.failed != nil:
		x.failed = x.reader.failed
	case x.failed == nil && !x.answer.Done:
		x.failed = errors.New("the answer ended before its end")
	case x.failed == nil && (x.row.Input == 0 || x.row.Output == 0):
		x.failed = errors.New("the answer has no tokens")
	}
	if x.failed != nil && x.row.Status == measure.StatusOK {
		x.row.Status, x.row.Error = measure.StatusError, x.failed.Error()
	}
	run.Add(&x.row)
}
