package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"

	served "github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"

	routes "github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/scheduler"
)

// Load of the test.
const (
	soakWorkers = 4
	soakStreams = 2000
	soakTime    = 60 * time.Second
	soakKill    = 10 * time.Second // time between two killed workers
)

// slowWorker returns flags for a worker with many concurrent requests. Passes of the worker are slow, so that the
// machine has time to send the tokens.
func slowWorker() []string {
	return []string{"--speedup-ratio=0.3", "--max-num-seqs=1000", "--max-num-batched-tokens=unlimited"}
}

// All requests of a replay with 2,000 in flight complete, and the workers count the same requests as the report.
func TestClusterSoakCounts(t *testing.T) {
	clusterRequest(t)
	t.Setenv(asProgram, "1")
	c := newCompound(t)
	var workers []*member
	for range soakWorkers {
		workers = append(workers, c.worker(slowWorker()...))
	}
	const requests = 6000
	got := replayHere(t, append([]string{
		"concurrency", "--max-in-flight", strconv.Itoa(soakStreams), "--input-tokens", "50", "--output-tokens", "20",
		"--request-count", strconv.Itoa(requests), "--mode", "cluster",
	}, c.flags()...)...)
	if got.code != cli.ExitDone || got.number("completed_requests") != requests || got.number("total_output_tokens") != 20*requests {
		t.Errorf("exit %d, report %v: %s", got.code, got.report, got.errs)
	}
	total := sumOf(workers, "dynamo_component_requests_total")
	bad := sumOf(workers, "dynamo_component_errors_total") + sumOf(workers, "dynamo_component_cancellation_total") +
		sumOf(workers, "dynamo_component_inflight_requests")
	t.Logf("%d requests, %d in flight: %v completed in %.1f s; the workers counted %v, and %v errors, cancellations and requests in flight",
		requests, soakStreams, got.number("completed_requests"), got.number("duration_ms")/1000, total, bad)
	if total != got.number("num_requests") || bad != 0 {
		t.Errorf("workers counted %v requests and %v that went wrong, want %v and none", total, bad, got.number("num_requests"))
	}
}

// soakTally counts how requests ended.
type soakTally struct {
	mu        sync.Mutex
	sent      int
	completed int
	failed    map[fault.Type]int
	wrong     []string       // descriptions of wrong results
	answered  map[uint64]int // number of accepted requests by worker
	tokens    int
}

func (s *soakTally) count(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// wrongly records a wrong result.
func (s *soakTally) wrongly(format string, args ...any) {
	s.count(func() { s.wrong = append(s.wrong, fmt.Sprintf(format, args...)) })
}

// soakWatch records the worker that accepts a request.
type soakWatch struct{ tally *soakTally }

func (w soakWatch) Placed(scheduler.Role, uint64) {}

func (w soakWatch) Taken(_ scheduler.Role, worker uint64, _ time.Time) {
	w.tally.count(func() { w.tally.answered[worker]++ })
}

func (w soakWatch) Read(scheduler.Role, *served.Chunk, time.Time) {}

// one sends a request and checks its answer. The answer must have the requested tokens and one terminal, or an error
// with a type.
func (s *soakTally) one(ctx context.Context, pool *routes.Pool, rng *rand.Rand) {
	rq := &served.Request{TokenIDs: make([]uint32, 20+rng.IntN(100))}
	for i := range rq.TokenIDs {
		rq.TokenIDs[i] = rng.Uint32N(1000)
	}
	want := 5 + rng.IntN(40)
	rq.SetMaxTokens(uint32(want))
	s.count(func() { s.sent++ })
	ctx, release := context.WithTimeout(ctx, clusterLimit)
	defer release()
	tokens, ends := 0, 0
	chunks, err := pool.Generate(routes.Observe(ctx, soakWatch{tally: s}), cancel.New(""), rq, nil)
	if err == nil {
		for c, failed := range chunks {
			if ends > 0 {
				s.wrongly("something after the end: %+v, %v", c, failed)
			}
			if err = failed; err != nil {
				ends++
				continue
			}
			tokens += len(c.TokenIDs)
			if c.FinishReason != "" {
				ends++
			}
		}
	} else {
		ends++
	}
	switch {
	case ctx.Err() != nil:
		s.wrongly("a request hung after %d of %d tokens", tokens, want)
	case ends != 1:
		s.wrongly("%d ends after %d of %d tokens", ends, tokens, want)
	case err == nil && tokens != want:
		s.wrongly("%d tokens, must be %d", tokens, want)
	case err == nil:
		s.count(func() { s.completed++; s.tokens += tokens })
	default:
		kind := fault.From(err).Type
		if kind == fault.Unknown {
			s.wrongly("an error without a type: %v", err)
		}
		s.count(func() { s.failed[kind]++ })
	}
}

// 2,000 concurrent streams run while a worker is killed every ten seconds. Each request ends with one terminal item
// or one typed error. No request is lost or duplicated, and no goroutine leaks.
func TestClusterSoakKills(t *testing.T) {
	clusterRequest(t)
	c := newCompound(t)
	var workers []*member
	for range soakWorkers {
		workers = append(workers, c.worker(append(slowWorker(), "--lease=2s")...))
	}
	pool, rt := c.pool(soakWorkers)
	before := runtime.NumGoroutine()
	s := &soakTally{failed: map[fault.Type]int{}, answered: map[uint64]int{}}
	ctx, end := context.WithTimeout(context.Background(), soakTime)
	defer end()
	var all sync.WaitGroup
	for i := range soakStreams {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for ctx.Err() == nil {
				s.one(context.Background(), pool, rng)
			}
		})
	}
	kills, dead := 0, map[uint64]bool{}
	for tick := time.NewTicker(soakKill); ctx.Err() == nil; {
		select {
		case <-tick.C:
			victim := workers[0]
			id, _ := strconv.ParseUint(victim.Instance, 16, 64)
			dead[id] = true
			victim.kill()
			kills++
			workers = append(workers[1:], c.worker(append(slowWorker(), "--lease=2s")...))
		case <-ctx.Done():
		}
	}
	all.Wait()
	idle := poll.Until(t, "idle workers", func() bool { return sumOf(workers, "dynamo_component_inflight_requests") == 0 })
	failed := 0
	for _, n := range s.failed {
		failed += n
	}
	t.Logf("%d streams for %v, %d workers killed: %d requests, %d completed (%d tokens), %d failed: %v; workers idle %v after the last",
		soakStreams, soakTime, kills, s.sent, s.completed, s.tokens, failed, s.failed, idle.Round(time.Millisecond))
	for i, text := range s.wrong {
		if i < 20 {
			t.Error(text)
		}
	}
	if s.sent != s.completed+failed || len(s.wrong) > 0 || kills < int(soakTime/soakKill)-1 {
		t.Errorf("%d requests, %d completed and %d failed, %d wrong, %d kills", s.sent, s.completed, failed, len(s.wrong), kills)
	}
	for _, w := range workers {
		id, _ := strconv.ParseUint(w.Instance, 16, 64)
		if got := w.metric("dynamo_component_requests_total", ""); int(got) != s.answered[id] {
			t.Errorf("worker %x counted %v requests, %d were answered by it", id, got, s.answered[id])
		}
	}
	pool.Close()
	if err := rt.Close(context.Background()); err != nil {
		t.Error(err)
	}
	poll.Until(t, "as few goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
	for _, w := range workers {
		t.Logf("worker %s: %s", w.Instance, residentSize(w.cmd.Process.Pid))
	}
}

// pool returns a pool of the cluster's workers after the given number of them are available.
func (c *compound) pool(workers int) (*routes.Pool, *drt.Runtime) {
	c.t.Helper()
	ctx, release := context.WithTimeout(context.Background(), clusterLimit)
	defer release()
	rt, err := drt.Connect(ctx, drt.Config{
		Etcd: drt.EtcdConfig{Endpoints: []string{c.servers.EtcdURL()}}, NATS: drt.NATSConfig{URL: c.servers.NATSURL()}, ResponseHost: "127.0.0.1",
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = rt.Close(context.Background()) })
	cards, err := rt.Cards(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	pool, err := routes.Open(ctx, rt, cards, drt.Name{Namespace: "dynamo", Component: "backend", Endpoint: "generate"}, routes.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(pool.Close)
	if err := pool.Await(ctx, workers); err != nil {
		c.t.Fatal(err)
	}
	return pool, rt
}

// residentSize returns the present and peak memory and the threads of a process.
func residentSize(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err.Error()
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "VmRSS:") || strings.HasPrefix(line, "VmHWM:") || strings.HasPrefix(line, "Threads:") {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(all, ", ")
}
