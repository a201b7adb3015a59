package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/drt/drttest"
)

// ordeal is a set of outages that a cluster must survive.
type ordeal struct {
	lease   time.Duration
	away    time.Duration // outage of etcd
	paused  time.Duration // pause of the frontend and of a worker
	streams int           // number of concurrent streams
	tokens  int           // tokens of each stream
}

// etcd is killed for longer than a lease, and restarted with its data, then without. A frontend and a worker are
// paused for longer than a lease. No stream is cut, no request is refused, and no process ends.
func TestStanding(t *testing.T) {
	t.Parallel()
	ordeal{lease: 2 * time.Second, away: 2500 * time.Millisecond, paused: 2500 * time.Millisecond, streams: 20, tokens: 12}.endure(t)
}

// The same with an outage of 25 s, pauses of 15 s, leases of 10 s, and 2,000 concurrent streams.
func TestStandingLong(t *testing.T) {
	clusterRequest(t)
	ordeal{lease: 10 * time.Second, away: 25 * time.Second, paused: 15 * time.Second, streams: 2000, tokens: 100}.endure(t)
}

func (o ordeal) endure(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	servers := drttest.StartIn(t, dir)
	c := &compound{t: t, servers: servers.Stack}
	lease := "--lease=" + o.lease.String()
	workers := []*member{c.worker(lease, "--speedup-ratio=0.05"), c.worker(lease, "--speedup-ratio=0.05")}
	f := c.front(lease, "--router=kv", "--migration-limit=3")
	poll.Until(t, "two workers", func() bool { return strings.Contains(f.get("/health"), `"instances":2`) })
	l := f.load(o.streams, o.tokens)
	poll.Until(t, "streams", func() bool { return l.events.Load() > int64(o.streams) })

	for _, forgets := range []bool{false, true} {
		servers.KillEtcd()
		from := time.Now()
		poll.Until(t, "it is told that what is known is old", func() bool {
			return strings.Contains(f.get("/health"), `"discovery_stale_seconds"`) && f.metric("replay_discovery_stale_seconds", "") > 0
		})
		time.Sleep(o.away - time.Since(from))
		if forgets {
			if err := os.RemoveAll(filepath.Join(dir, "etcd")); err != nil {
				t.Fatal(err)
			}
		}
		if err := servers.RestartEtcd(t.Context()); err != nil {
			t.Fatal(err)
		}
		took := poll.Until(t, "both workers in etcd", func() bool { return areRegistered(t, servers, workers) })
		mayTake(t, fmt.Sprintf("etcd is back (without its data: %v) to workers that are there", forgets), took, 20*time.Second)
		poll.Until(t, "it is told that all is new", func() bool {
			return !strings.Contains(f.get("/health"), "stale") && f.metric("replay_discovery_stale_seconds", "") == 0
		})
		l.check(t, fmt.Sprintf("etcd was away (without its data: %v)", forgets))
	}
	for what, m := range map[string]*member{"frontend": f, "worker": workers[0]} {
		m.signal(syscall.SIGSTOP)
		time.Sleep(o.paused)
		m.signal(syscall.SIGCONT)
		poll.Until(t, "both workers in etcd", func() bool { return areRegistered(t, servers, workers) })
		poll.Until(t, "two workers", func() bool { return strings.Contains(f.get("/health"), `"instances":2`) })
		l.check(t, "paused: "+what)
	}
	l.end()
	l.check(t, "in the end")
	t.Logf("%d streams were whole", l.whole.Load())
	for _, m := range append(workers, f) {
		select {
		case <-m.done:
			t.Errorf("%v has ended: %s", m.cmd.Args[1:], &m.err)
		default:
		}
		if n := strings.Count(m.err.String(), "\n"); n > 40 {
			t.Errorf("%v wrote %d lines: %.2000s", m.cmd.Args[1:], n, &m.err)
		}
	}
}

// If a frontend ends during a stream, the last event of the stream reports this to the client.
func TestFrontendTellsItsEnd(t *testing.T) {
	t.Parallel()
	c := newCompound(t)
	w := c.worker("--speedup-ratio=0.05")
	f := c.front("--grace=200ms")
	poll.Until(t, "a model", func() bool { return f.answers() == http.StatusOK })
	a := f.ask(50, 5000)
	a.event()
	f.signal(syscall.SIGTERM)
	events := a.rest()
	if last := events[len(events)-1]; !strings.Contains(last, "the frontend ends") {
		t.Errorf("last event %s, want an error", last)
	}
	<-f.done
	if code := f.cmd.ProcessState.ExitCode(); code != cli.ExitRefused {
		t.Errorf("exit %d, want %d: a request was not waited for: %s", code, cli.ExitRefused, &f.err)
	}
	poll.Until(t, "idle worker", func() bool { return !w.busy() })
}

func (m *member) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}

// areRegistered reports whether etcd has the keys of exactly these workers under their original ids.
func areRegistered(t *testing.T, servers *drttest.Servers, workers []*member) bool {
	t.Helper()
	found := 0
	for _, key := range servers.Keys(t) {
		i := slices.IndexFunc(workers, func(w *member) bool {
			return strings.HasSuffix(key, "-"+w.Instance) || strings.HasSuffix(key, "/"+w.Instance)
		})
		if i < 0 {
			return false
		}
		found++
	}
	return found == 3*len(workers) // two layouts of the instance, and the card
}

// load is a group of clients that request one stream after the other.
type load struct {
	events, whole atomic.Int64
	done          chan struct{}
	wg            sync.WaitGroup

	mu     sync.Mutex
	failed []string
}

// load starts the given number of concurrent streams, which repeat until the end.
func (m *member) load(streams, tokens int) *load {
	l := &load{done: make(chan struct{})}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	for i := range streams {
		l.wg.Go(func() {
			for {
				select {
				case <-l.done:
					return
				default:
				}
				if err := l.ask(client, m.HTTP, i, tokens); err != nil {
					l.mu.Lock()
					l.failed = append(l.failed, fmt.Sprint(time.Now().Format("15:04:05.0 "), err))
					l.mu.Unlock()
					time.Sleep(100 * time.Millisecond)
				}
			}
		})
	}
	m.t.Cleanup(l.end)
	return l
}

// ask requests one stream, and returns its error.
func (l *load) ask(client *http.Client, at string, i, tokens int) error {
	body := fmt.Sprintf(`{"model":"mocker-model","stream":true,"max_tokens":%d,"prompt":[%d,2,3,4]}`, tokens, i)
	r, err := client.Post(at+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	got, last := 0, ""
	in := bufio.NewScanner(r.Body)
	for in.Scan() {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct{ Choices []struct{ Text string } }
		if json.Unmarshal([]byte(data), &event) == nil && len(event.Choices) > 0 && event.Choices[0].Text != "" {
			got++
		}
		last = data
		l.events.Add(1)
	}
	if r.StatusCode != http.StatusOK || last != "[DONE]" || got != tokens {
		return fmt.Errorf("status %d, %d tokens of %d, the last event %.300s, %v", r.StatusCode, got, tokens, last, in.Err())
	}
	l.whole.Add(1)
	return nil
}

// check fails the test if a stream has failed since the last check.
func (l *load) check(t *testing.T, when string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, text := range l.failed {
		if i < 5 {
			t.Errorf("%s: %s", when, text)
		}
	}
	if len(l.failed) > 0 {
		t.Errorf("%s: %d streams failed", when, len(l.failed))
	}
	l.failed = nil
}

// end waits until the running streams have ended.
func (l *load) end() {
	l.mu.Lock()
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	l.mu.Unlock()
	l.wg.Wait()
}
