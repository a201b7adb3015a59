// Package drive sends the requests of a workload to a real server with OpenAI's API, and records the measurements.
//
// The driver of replays in real time lets requests arrive, in open or closed loop and turn by turn. A Target of this
// package sends the requests. Read target.go (a request as a call), prompts.go (its prompt), server.go (the settings
// that the server reports), tally.go (how late the client was).
package drive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/measure"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/sim"
)

// Options configure requests.
type Options struct {
	URL   string // URL of the server, without /v1
	Model string
	Chat  bool // /v1/chat/completions instead of /v1/completions
	// Body has additional members of every request.
	Body    map[string]any
	Headers http.Header
	// SessionHeader is the request header with the session, for routers. ServerHeader is the response header with the
	// name of the server. "": none.
	SessionHeader, ServerHeader string
	Whole                       bool          // answers are not streamed
	Timeout                     time.Duration // timeout of a request
}

// Target serves the requests of a workload by calls. Target implements online.Target.
//
// The recorder receives a request after it has completed.
type Target struct {
	o       Options
	prompts *Prompts
	client  *http.Client
	ahead   *ahead
	path    string
	before  []byte // the JSON of a body before and after the prompt
	behind  []byte

	run   *measure.Run
	rec   *online.Recorder
	clock *online.Clock
	kept  *Kept
	bufs  sync.Pool
}

// NewTarget returns a target for requests with the prompts p.
func NewTarget(o Options, p *Prompts, run *measure.Run, kept *Kept) (*Target, error) {
	t := &Target{o: o, prompts: p, run: run, kept: kept, path: o.URL + "/v1/completions"}
	body := map[string]any{"model": o.Model, "temperature": 0, "ignore_eos": true, "stream": !o.Whole}
	if !o.Whole {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	for key, value := range o.Body {
		if body[key] = value; value == nil {
			delete(body, key)
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	t.before, t.behind = append(text[:len(text)-1], `,"prompt":`...), []byte(`,"max_tokens":`)
	if o.Chat {
		t.path = o.URL + "/v1/chat/completions"
		t.before, t.behind = append(text[:len(text)-1], `,"messages":[{"role":"user","content":`...), []byte(`}],"max_tokens":`)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.DisableCompression = 0, 1<<16, true
	t.client = &http.Client{Transport: transport}
	t.bufs.New = func() any { return new([16 << 10]byte) }
	return t, nil
}

// Begin returns t as the target of a replay on a clock. Begin prepares connections and bodies, so that the first
// requests are not late. Close releases the connections and bodies.
func (t *Target) Begin(ctx context.Context, rec *online.Recorder, clock *online.Clock) online.Target {
	t.rec, t.clock = rec, clock
	t.openConnections(ctx)
	t.ahead = newAhead(t.prompts.workload, t.makeBody)
	return t
}

// maxOpened is the maximum number of connections that are opened before the first request.
const maxOpened = 256

// openConnections opens one connection per session, up to maxOpened.
func (t *Target) openConnections(ctx context.Context) {
	ctx, end := context.WithTimeout(ctx, contactLimit)
	defer end()
	var all sync.WaitGroup
	for range min(len(t.prompts.workload.Sessions), maxOpened) {
		all.Go(func() {
			rq, err := http.NewRequestWithContext(ctx, http.MethodGet, t.o.URL+"/v1/models", nil)
			if err != nil {
				return
			}
			maps.Copy(rq.Header, t.o.Headers)
			if response, err := t.client.Do(rq); err == nil { // the connection is also open if the server rejects the request
				_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
				response.Body.Close()
			}
		})
	}
	all.Wait()
}

// Close releases the resources of the target. Close serves no further requests.
func (t *Target) Close() {
	if t.ahead != nil {
		t.ahead.close()
	}
	t.client.CloseIdleConnections()
}

// call is a request in flight.
type call struct {
	q      *sim.Request
	body   []byte
	row    measure.Row
	answer *measure.Answer
	wrote  time.Time
}

// Serve sends q and reads the answer to its end. The end of ctx ends the request.
func (t *Target) Serve(ctx context.Context, q *sim.Request, placed func()) error {
	placed()
	place, w := t.prompts.turnOf(q), t.prompts.workload
	turn := &w.Turns[place]
	c := &call{q: q, body: t.ahead.takeBody(place), answer: measure.NewAnswer(!t.o.Whole), row: measure.Row{
		ID: strconv.Itoa(int(q.ID)), Line: int(q.Line), Input: q.InputTokens, Asked: q.OutputTokens, Blocks: turn.IDs,
		Streamed: !t.o.Whole, Status: measure.StatusOK, Due: new(t.run.Since(time.Now().Add(-time.Duration(float64(t.clock.Now()-q.Arrived) * 1e6)))),
	}}
	if turn.Next >= 0 {
		t.ahead.expect(turn.Next)
	}
	if w.MultiTurn() {
		c.row.Session = w.SessionID(int(q.Session))
	}
	err := t.ask(ctx, c)
	if c.wrote.IsZero() {
		c.wrote = time.Now()
	}
	c.row.Arrival = t.run.Since(c.wrote)
	c.row.SetAnswer(c.answer, t.run.Start)
	switch {
	case ctx.Err() != nil && err != nil:
		c.row.Status, err = measure.StatusCancelled, ctx.Err()
	case err != nil:
		c.row.Status, c.row.Error = measure.StatusError, err.Error()
	}
	t.run.Add(&c.row)
	t.kept.addRow(&c.row, q)
	if err == nil {
		t.reportTokens(c)
	}
	return err
}

// makeBody returns the body of a request.
func (t *Target) makeBody(turn int32) []byte {
	q := &t.prompts.workload.Turns[turn]
	body := append(make([]byte, 0, len(t.before)+len(t.behind)+8*int(q.Input)+16), t.before...)
	body = append(t.prompts.appendPrompt(body, turn), t.behind...)
	return append(strconv.AppendInt(body, int64(q.Output), 10), '}')
}

// ask sends the request and reads the answer.
func (t *Target) ask(ctx context.Context, c *call) error {
	ctx, end := context.WithTimeoutCause(ctx, t.o.Timeout, fmt.Errorf("no whole answer after %v", t.o.Timeout))
	defer end()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { c.wrote = time.Now() }})
	rq, err := http.NewRequestWithContext(traced, http.MethodPost, t.path, bytes.NewReader(c.body))
	if err != nil {
		return err
	}
	rq.Header.Set("Content-Type", "application/json")
	maps.Copy(rq.Header, t.o.Headers)
	if t.o.SessionHeader != "" {
		rq.Header.Set(t.o.SessionHeader, t.prompts.workload.SessionID(int(c.q.Session)))
	}
	response, err := t.client.Do(rq)
	if err == nil {
		defer response.Body.Close()
		err = t.readAnswer(c, response)
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	return err
}

// readAnswer reads an answer to its end.
func (t *Target) readAnswer(c *call, response *http.Response) error {
	c.row.Code = response.StatusCode
	if t.o.ServerHeader != "" {
		c.row.Server = response.Header.Get(t.o.ServerHeader)
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(text))
	}
	buffer := t.bufs.Get().(*[16 << 10]byte)
	defer t.bufs.Put(buffer)
	for {
		n, err := response.Body.Read(buffer[:])
		if n > 0 {
			c.answer.AddBytes(time.Now(), buffer[:n])
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	c.answer.End()
	switch {
	case c.answer.Err != "":
		return errors.New(c.answer.Err)
	case !c.answer.Done:
		return errors.New("the stream ended without [DONE]")
	case c.answer.Last.IsZero():
		return errors.New("the answer has no token")
	}
	return nil
}

// reportTokens reports a completed request to the recorder with the requested number of tokens. The last token has
// the time of the last piece of the answer.
func (t *Target) reportTokens(c *call) {
	reused := 0
	if c.row.Cached != nil {
		reused = *c.row.Cached
	}
	a := c.answer
	t.rec.Admitted(t.clock.At(a.First), c.q.ID, reused)
	at, n := a.First, c.q.OutputTokens
	for i := range n {
		switch {
		case i == n-1:
			at = a.Last
		case i > 0 && i <= len(a.Gaps):
			at = at.Add(time.Duration(a.Gaps[i-1] * 1e9))
		}
		t.rec.Token(t.clock.At(at), c.q.ID, i == n-1)
	}
}
