//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cmd/replay-live/serve"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/sim/blockhash"
)

// fleetSoak is etcd and NATS in separate processes, workers and a frontend. The processes are connected through
// proxies that can be cut.
type fleetSoak struct {
	t                  *testing.T
	rng                *rand.Rand
	compound           *compound
	etcd, nats         *stackProcess
	etcdLine, natsLine *line
	front              *member
	workers            []*followed
	faults             map[string]int
	faulty             atomic.Bool // a fault is being injected
}

// followed is a worker and a subscriber of its KV events.
type followed struct {
	*member
	index *kvevents.Index
	sub   *kvevents.Subscriber
}

func newFleetSoak(t *testing.T, rng *rand.Rand) *fleetSoak {
	t.Helper()
	s := &fleetSoak{t: t, rng: rng, faults: map[string]int{}}
	s.etcd, s.nats = startStack(t), startStack(t)
	s.etcdLine, s.natsLine = newLine(t, s.etcd.at.Etcd), newLine(t, s.nats.at.NATS)
	s.compound = &compound{t: t, env: []string{"ETCD_ENDPOINTS=http://" + s.etcdLine.Addr().String(), "NATS_SERVER=nats://" + s.natsLine.Addr().String()}}
	for range 4 {
		s.workers = append(s.workers, s.newWorker())
	}
	s.front = s.compound.front("--router=kv", "--migration-limit=3", "--lease=2s")
	poll.Until(t, "four workers", func() bool { return strings.Contains(s.front.get("/health"), `"instances":4`) })
	return s
}

// newWorker starts a worker and follows its events.
func (s *fleetSoak) newWorker() *followed {
	w := &followed{member: s.compound.worker(append(slowWorker(), "--num-gpu-blocks=3000", "--lease=2s")...)}
	w.index, w.sub = s.follow(w.member)
	return w
}

// follow subscribes to the KV events of a worker.
func (s *fleetSoak) follow(m *member) (*kvevents.Index, *kvevents.Subscriber) {
	s.t.Helper()
	x := kvevents.NewIndex(nil)
	sub, err := kvevents.Subscribe(kvevents.SubscriberOptions{Events: m.KVEvents, Replay: m.KVReplay, BlockTokens: 64, Sink: x.Feed(1)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(sub.Close)
	return x, sub
}

// replaceWorker kills a worker and starts another worker. No other fault is active, because a worker needs etcd and
// NATS to start.
func (s *fleetSoak) replaceWorker(i int) {
	s.workers[i].kill()
	s.workers[i].sub.Close()
	s.workers[i] = s.newWorker()
}

// rest waits until all workers are idle and registered.
func (s *fleetSoak) rest() {
	poll.Until(s.t, "four workers at rest", func() bool {
		busy := 0.0
		for _, w := range s.workers {
			busy += w.metric("dynamo_component_inflight_requests", "")
		}
		return busy == 0 && strings.Contains(s.front.get("/health"), `"instances":4`)
	})
}

// checkIndex fails the test unless the index that was followed through all faults equals the index of a new
// subscriber.
func (s *fleetSoak) checkIndex() {
	s.t.Helper()
	for i, w := range s.workers {
		fresh, sub := s.follow(w.member)
		poll.Until(s.t, "a new follower has all", func() bool { n := sub.Stats().Next; return n > 0 && n == w.sub.Stats().Next })
		hits := 0
		for group := range soakGroups {
			var query []uint64
			for tokens := soakPrompt(group); len(tokens) > 0; tokens = tokens[64:] {
				query = append(query, blockhash.Tokens(tokens[:64]))
			}
			old, now := w.index.Match(query, nil), fresh.Match(query, nil)
			if !reflect.DeepEqual(old, now) {
				s.t.Errorf("worker %d, group %d: %v, want %v", i, group, old, now)
			}
			hits += len(now)
		}
		if old, now := w.index.Blocks(), fresh.Blocks(); !reflect.DeepEqual(old, now) || w.index.Size() != fresh.Size() {
			s.t.Errorf("worker %d: %v and %d blocks, want %v and %d", i, old, w.index.Size(), now, fresh.Size())
		}
		stats := w.sub.Stats()
		s.t.Logf("worker %d: %d blocks known to both followers, of %d groups; the old one: %d batches, %d replayed, %d snapshots, %d gaps",
			i, fresh.Size(), hits, stats.Live, stats.Replayed, stats.Snapshots, stats.Gaps)
		sub.Close()
	}
}

// sizes are successive resident sizes in MiB.
type sizes struct{ front []int }

// watchSizes reads resident sizes twice a second until the returned function is called.
func (s *fleetSoak) watchSizes() (end func() sizes) {
	done, all := make(chan struct{}), make(chan sizes, 1)
	front := s.front.cmd.Process.Pid
	go func() {
		var found sizes
		for tick := time.NewTicker(500 * time.Millisecond); ; {
			select {
			case <-tick.C:
				found.front = append(found.front, residentMiB(front))
			case <-done:
				all <- found
				return
			}
		}
	}()
	return func() sizes { close(done); return <-all }
}

// residentMiB returns the resident memory of a process in MiB.
func residentMiB(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if fields := strings.Fields(string(text)); len(fields) > 1 {
		pages, _ := strconv.Atoi(fields[1])
		return pages * os.Getpagesize() >> 20
	}
	return 0
}

// checkSizes fails the test if the memory of processes grows.
func (s *fleetSoak) checkSizes(found sizes, length time.Duration) {
	s.t.Helper()
	quarter := len(found.front) / 4
	if quarter == 0 {
		return
	}
	most := func(part []int) (m int) {
		for _, n := range part {
			m = max(m, n)
		}
		return m
	}
	second, last := most(found.front[quarter:2*quarter]), most(found.front[3*quarter:])
	var workers []int
	for _, w := range s.workers {
		workers = append(workers, residentMiB(w.cmd.Process.Pid))
	}
	s.t.Logf("resident MiB: frontend %d in the second quarter, %d in the last; workers %v at the end", second, last, workers)
	if last > second+second/3+64 || most(workers) > 1024 {
		s.t.Errorf("the frontend has grown from %d to %d MiB in %v, workers have %v", second, last, length/2, workers)
	}
}

// checkGoroutines ends the frontend and the workers with a dump of their goroutines. checkGoroutines fails the test
// if a goroutine still serves a request.
func (s *fleetSoak) checkGoroutines() {
	s.t.Helper()
	working := regexp.MustCompile(`answerRequest|relaySignals|pullItems|forwardChunks|generation\).watchSignals|sendParts|askModel`)
	for _, m := range []*member{s.front, s.workers[0].member, s.workers[1].member, s.workers[2].member, s.workers[3].member} {
		m.signal(syscall.SIGQUIT)
		<-m.done
		dump := m.err.String()
		n := strings.Count(dump, "\ngoroutine ")
		if n == 0 || n > 200 || working.MatchString(dump) {
			s.t.Errorf("%v: %d goroutines, some of requests: %.4000s", m.cmd.Args[1:], n, working.FindString(dump))
		}
		s.t.Logf("%s: %d goroutines at the end, none of a request", m.cmd.Args[1], n)
	}
}

// stackProcess is a process with etcd and NATS. The data of etcd and NATS is kept across restarts.
type stackProcess struct {
	t    *testing.T
	dir  string
	args []string
	cmd  *exec.Cmd
	at   serve.StackAddresses
}

func startStack(t *testing.T) *stackProcess {
	t.Helper()
	p := &stackProcess{t: t, dir: t.TempDir()}
	p.args = []string{"stack", "up", "--data-dir", p.dir, "--etcd-port", strconv.Itoa(anyPort(t)), "--nats-port", strconv.Itoa(anyPort(t))}
	p.start()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	return p
}

func (p *stackProcess) start() {
	p.t.Helper()
	var line string
	p.cmd, _, line = startProcess(p.t, 1, p.args...)
	if err := json.Unmarshal([]byte(line), &p.at); err != nil {
		p.t.Fatal(err)
	}
}

// restart kills the process and starts it again after a while. If full is set, the process first gets a full disk.
func (p *stackProcess) restart(away time.Duration, full bool) {
	p.t.Helper()
	if full {
		if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: 1}, nil); err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(away) // the next renewal of a lease is written meanwhile
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	if !full {
		time.Sleep(away)
	}
	p.start()
}

// line is a proxy to a server that can be cut.
type line struct {
	net.Listener
	target string

	mu    sync.Mutex
	open  map[net.Conn]bool
	until time.Time // new connections are refused until then
}

func newLine(t *testing.T, url string) *line {
	t.Helper()
	_, target, _ := strings.Cut(url, "://")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &line{Listener: l, target: target, open: map[net.Conn]bool{}}
	go n.serve()
	t.Cleanup(func() { l.Close(); n.cut(0) })
	return n
}

func (l *line) serve() {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go l.pass(in)
	}
}

// pass forwards one connection.
func (l *line) pass(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer out.Close()
	l.mu.Lock()
	refused := time.Now().Before(l.until)
	l.open[in], l.open[out] = true, true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, in)
		delete(l.open, out)
	}()
	if refused {
		return
	}
	go func() { _, _ = io.Copy(out, in); out.Close(); in.Close() }()
	_, _ = io.Copy(in, out)
}

// cut closes all connections, refuses new connections for the time away, and waits for it.
func (l *line) cut(away time.Duration) {
	l.mu.Lock()
	l.until = time.Now().Add(away)
	for c := range l.open {
		c.Close()
	}
	l.mu.Unlock()
	time.Sleep(away)
}
