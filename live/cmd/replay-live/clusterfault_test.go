package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
)

// asking is a streamed request to a frontend.
type asking struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
}

// ask requests a stream of the given number of tokens.
func (m *member) ask(promptTokens, tokens int) *asking {
	m.t.Helper()
	body := fmt.Sprintf(`{"model":"mocker-model","stream":true,"max_tokens":%d,"prompt":[%s1]}`, tokens, strings.Repeat("1,", promptTokens-1))
	c, err := net.Dial("tcp", strings.TrimPrefix(m.HTTP, "http://"))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(clusterLimit))
	if _, err := fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		m.t.Fatal(err)
	}
	return &asking{m.t, c, bufio.NewScanner(c)}
}

// event returns the data of the next event, or "" at the end.
func (a *asking) event() string {
	for a.in.Scan() {
		if data, ok := strings.CutPrefix(a.in.Text(), "data: "); ok {
			return data
		}
	}
	return ""
}

// rest returns all remaining events.
func (a *asking) rest() (all []string) {
	for e := a.event(); e != ""; e = a.event() {
		if all = append(all, e); e == "[DONE]" || strings.Contains(e, `"error"`) {
			break
		}
	}
	return all
}

// answers returns the status of a short request.
func (m *member) answers() int {
	m.t.Helper()
	r, err := http.Post(m.HTTP+"/v1/completions", "application/json", strings.NewReader(`{"model":"mocker-model","prompt":"a","max_tokens":1}`))
	if err != nil {
		m.t.Fatal(err)
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

func (m *member) busy() bool { return m.metric("dynamo_component_inflight_requests", "") > 0 }

// mayTake fails the test if took is more than limit.
func mayTake(t *testing.T, what string, took, limit time.Duration) {
	t.Helper()
	t.Logf("%-60s %8.1f ms, at most %v", what, float64(took)/1e6, limit)
	if took > limit {
		t.Errorf("%s took %v, want at most %v", what, took, limit)
	}
}

// A client that leaves before the first byte or during a stream is counted once by the frontend and once by the
// worker. The worker is idle soon after.
func TestClusterFaultClientLeaves(t *testing.T) {
	clusterRequest(t)
	c := newCompound(t)
	w, f := c.worker("--speedup-ratio=0.05"), c.front()
	poll.Until(t, "a model", func() bool { return f.answers() == http.StatusOK })
	for i, middle := range []bool{false, true} {
		a := f.ask(2000, 500)
		if middle {
			a.event()
		} else {
			poll.Until(t, "request at the worker", w.busy)
		}
		a.conn.Close()
		took := poll.Until(t, "idle worker", func() bool { return !w.busy() })
		// Passes take 20 times as long as usual, and are not interrupted.
		mayTake(t, fmt.Sprintf("client leaves (stream begun: %v) to idle worker", middle), took, 5*time.Second)
		poll.Until(t, "counts", func() bool {
			return w.metric("dynamo_component_cancellation_total", "") == float64(i+1) && f.metric("dynamo_frontend_model_cancellation_total", "") == float64(i+1)
		})
	}
	quick := c.worker("--namespace=quick", "--model-name=quick")
	poll.Until(t, "another model", func() bool { return strings.Contains(f.get("/v1/models"), `"quick"`) })
	var all []time.Duration
	for range 20 {
		a := f.askModel("quick", 2000)
		a.event()
		a.conn.Close()
		all = append(all, poll.Until(t, "idle worker", func() bool { return !quick.busy() }))
	}
	slices.Sort(all)
	mayTake(t, "client leaves to idle worker, median of 20", all[10], 50*time.Millisecond)
}

func (m *member) get(path string) string {
	r, err := http.Get(m.HTTP + path)
	if err != nil {
		m.t.Fatal(err)
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	return string(b)
}

// askModel requests a long stream from the given model.
func (m *member) askModel(model string, tokens int) *asking {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":%d,"prompt":"abc"}`, model, tokens)
	a := &asking{t: m.t}
	var err error
	if a.conn, err = net.Dial("tcp", strings.TrimPrefix(m.HTTP, "http://")); err != nil {
		m.t.Fatal(err)
	}
	_ = a.conn.SetDeadline(time.Now().Add(clusterLimit))
	fmt.Fprintf(a.conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	a.in = bufio.NewScanner(a.conn)
	return a
}

// If a worker crashes during a stream, the stream soon ends with an error, and later requests use the other worker.
// With migration, the stream continues.
func TestClusterFaultWorkerCrash(t *testing.T) {
	clusterRequest(t)
	for _, migrate := range []bool{false, true} {
		c := newCompound(t)
		args := []string{"--http-port=0"}
		if migrate {
			args = append(args, "--migration-limit=1")
		}
		workers := []*member{c.worker("--lease=2s"), c.worker("--lease=2s")}
		f := c.front(args...)
		poll.Until(t, "two workers", func() bool { return strings.Contains(f.get("/health"), `"instances":2`) })
		const tokens = 200
		a := f.ask(50, tokens)
		a.event()
		i := slices.IndexFunc(workers, (*member).busy)
		from := time.Now()
		workers[i].kill()
		events := a.rest()
		last := events[len(events)-1]
		if migrate {
			if last != "[DONE]" || len(events) != tokens {
				t.Errorf("%d events after the first, the last %s, want %d and [DONE]", len(events), last, tokens)
			}
			t.Logf("migrated: %d tokens in all", len(events))
		} else {
			mayTake(t, "worker crash to error", time.Since(from), time.Second)
			if !strings.Contains(last, "Disconnected") {
				t.Errorf("last event %s, want Disconnected", last)
			}
		}
		for range 4 {
			if code := f.answers(); code != http.StatusOK {
				t.Errorf("status %d with one worker left", code)
			}
		}
		gone := poll.Until(t, "a key gone", func() bool { return strings.Contains(f.get("/health"), `"instances":1`) })
		mayTake(t, "worker crash to its key's end, lease of 2 s", gone, 4*time.Second)
	}
}

// A stream of a hung worker ends after the timeout between two tokens. A worker that hung for longer than its lease
// serves again when it continues.
func TestClusterFaultWorkerHangs(t *testing.T) {
	clusterRequest(t)
	c := newCompound(t)
	w, f := c.worker("--lease=2s"), c.front("--stream-timeout=1s")
	poll.Until(t, "a model", func() bool { return f.answers() == http.StatusOK })
	a := f.ask(50, 5000)
	a.event()
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	events := a.rest()
	mayTake(t, "worker hangs to error, limit of 1 s", time.Since(from), 3*time.Second)
	if last := events[len(events)-1]; !strings.Contains(last, "ResponseTimeout") {
		t.Errorf("last event %s, want ResponseTimeout", last)
	}
	poll.Until(t, "no workers", func() bool { return f.answers() == http.StatusServiceUnavailable })
	poll.Until(t, "a key gone", func() bool {
		return strings.Contains(f.get("/health"), `"models":[]`) || strings.Contains(f.get("/health"), `"instances":0`)
	})
	w.signal(syscall.SIGCONT)
	mayTake(t, "worker wakes up to answers", poll.Until(t, "an answer", func() bool { return f.answers() == http.StatusOK }), 40*time.Second)
}

// If a worker is stopped for good, its stream ends with an error within a minute, without a timeout flag of the
// frontend.
func TestClusterFaultCutForGood(t *testing.T) {
	clusterRequest(t)
	c := newCompound(t)
	w, f := c.worker(), c.front()
	poll.Until(t, "a model", func() bool { return f.answers() == http.StatusOK })
	a := f.ask(50, 5000)
	a.event()
	w.signal(syscall.SIGSTOP)
	from := time.Now()
	events := a.rest()
	mayTake(t, "worker is cut off to error", time.Since(from), time.Minute)
	if last := events[len(events)-1]; !strings.Contains(last, "no sign of life") {
		t.Errorf("last event %s, want that there is no sign of life", last)
	}
	w.signal(syscall.SIGCONT)
}

// A crash of a caller with 20 streams counts as 20 cancellations. The worker of the crashed caller is idle soon
// after.
func TestClusterFaultCallerCrash(t *testing.T) {
	clusterRequest(t)
	c := newCompound(t)
	w, f := c.worker(), c.front()
	poll.Until(t, "a model", func() bool { return f.answers() == http.StatusOK })
	for range 20 {
		f.ask(50, 5000).event()
	}
	f.kill()
	took := poll.Until(t, "idle worker", func() bool { return !w.busy() })
	mayTake(t, "caller crash with 20 streams to idle worker", took, time.Second)
	if got := w.metric("dynamo_component_cancellation_total", ""); got != 20 {
		t.Errorf("%v cancellations, want 20", got)
	}
}

// A client that leaves during prefill stops the prefill. The decode worker is not called, or its request ends, too,
// if both workers got the request at once.
func TestClusterFaultPrefill(t *testing.T) {
	clusterRequest(t)
	for _, together := range []bool{false, true} {
		c := newCompound(t)
		p := c.worker("--disaggregation-mode=prefill", "--speedup-ratio=0.05", fmt.Sprintf("--bootstrap=%v", together))
		d := c.worker("--disaggregation-mode=decode")
		f := c.front()
		poll.Until(t, "a pair", func() bool { return f.answers() == http.StatusOK })
		before := d.metric("dynamo_component_requests_total", "")
		a := f.ask(4000, 50)
		poll.Until(t, "prefill", p.busy)
		a.conn.Close()
		took := poll.Until(t, "idle workers", func() bool { return !p.busy() && !d.busy() })
		mayTake(t, fmt.Sprintf("client leaves during prefill (both at once: %v)", together), took, 20*time.Second)
		called := d.metric("dynamo_component_requests_total", "") - before
		if !together && called != 0 || called > 1 {
			t.Errorf("decode was called %v times", called)
		}
		if got := p.metric("dynamo_component_cancellation_total", ""); got != 1 {
			t.Errorf("%v cancellations at prefill, want 1", got)
		}
		if f.answers() != http.StatusOK {
			t.Error("the pair does not answer any more")
		}
	}
}

// Without NATS, running streams continue and new requests fail soon. An outage of etcd for less than a lease has no
// effect.
func TestClusterFaultServers(t *testing.T) {
	clusterRequest(t)
	c := newCompound(t)
	c.worker()
	f := c.front()
	poll.Until(t, "a model", func() bool { return f.answers() == http.StatusOK })
	a := f.ask(50, 300)
	a.event()
	c.servers.KillNATS()
	from := time.Now()
	if code := f.answers(); code != http.StatusServiceUnavailable {
		t.Errorf("status %d without NATS, want 503", code)
	}
	mayTake(t, "request without NATS to its error", time.Since(from), 3*time.Second)
	if events := a.rest(); len(events) != 300 || events[299] != "[DONE]" {
		t.Errorf("%d events, want 299 tokens and [DONE]", len(events))
	}
	if err := c.servers.RestartNATS(t.Context()); err != nil {
		t.Fatal(err)
	}
	mayTake(t, "NATS back to answers", poll.Until(t, "an answer", func() bool { return f.answers() == http.StatusOK }), 10*time.Second)
	c.servers.KillEtcd()
	for range 20 {
		if code := f.answers(); code != http.StatusOK {
			t.Errorf("status %d without etcd", code)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := c.servers.RestartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code := f.answers(); code != http.StatusOK {
		t.Errorf("status %d with etcd again", code)
	}
}
