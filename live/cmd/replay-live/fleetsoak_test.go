//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	soakFor  = flag.Duration("fleet-soak", 0, "let a fleet stand faults at random for so much `time` (make fleet-soak); 0: some seconds")
	soakSeed = flag.Uint64("fleet-seed", 1, "`number` from which the faults of -fleet-soak are drawn")
)

// A fleet of workers behind a frontend survives random faults under load. Faults are killed and stopped workers, a
// stopped frontend, cuts, kills and restarts of etcd and NATS, and a full disk. Every request ends in one terminal
// event or a typed error. The index equals the KV caches of the workers, memory is limited, and no goroutine of a
// request is left.
func TestFleetSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it takes half a minute under the race detector")
	}
	length, streams := *soakFor, 1000
	if length == 0 {
		t.Parallel()
		length, streams = 6*time.Second, 40
	}
	s := newFleetSoak(t, rand.New(rand.NewPCG(*soakSeed, 0)))
	load := startClients(s.front.HTTP, streams, func() bool { return !s.faulty.Load() })
	sizes := s.watchSizes()
	s.inflict(length)
	load.end()
	s.rest()
	load.report(t, length)
	t.Logf("faults: %s", countsOf(s.faults))
	s.checkIndex()
	s.checkSizes(sizes(), length)
	s.checkGoroutines()
}

// countsOf formats counts, sorted by name.
func countsOf(counts map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(all, ", ")
}

// inflict injects faults for the time length.
func (s *fleetSoak) inflict(length time.Duration) {
	pauses := func(least, most time.Duration) time.Duration {
		return least + time.Duration(s.rng.Int64N(int64(most-least)))
	}
	faults := []struct {
		name string
		do   func()
	}{
		{"workers killed", func() { s.replaceWorker(s.rng.IntN(len(s.workers))) }},
		{"workers stopped", func() {
			s.pause(s.workers[s.rng.IntN(len(s.workers))].member, pauses(100*time.Millisecond, 3*time.Second))
		}},
		{"frontends stopped", func() { s.pause(s.front, pauses(100*time.Millisecond, 2*time.Second)) }},
		{"cuts of etcd", func() { s.etcdLine.cut(pauses(100*time.Millisecond, 3*time.Second)) }},
		{"cuts of NATS", func() { s.natsLine.cut(pauses(100*time.Millisecond, 3*time.Second)) }},
		{"restarts of etcd", func() { s.etcd.restart(pauses(100*time.Millisecond, 3*time.Second), false) }},
		{"restarts of NATS", func() { s.nats.restart(pauses(100*time.Millisecond, 3*time.Second), false) }},
		{"full disks", func() { s.etcd.restart(pauses(100*time.Millisecond, time.Second), true) }},
	}
	order := s.rng.Perm(len(faults))
	for end, i := time.Now().Add(length), 0; time.Now().Before(end); i++ {
		f := &faults[order[i%len(order)]]
		if i%len(order) == len(order)-1 {
			order = s.rng.Perm(len(faults))
		}
		s.faults[f.name]++
		s.faulty.Store(true)
		f.do()
		s.faulty.Store(false)
		time.Sleep(pauses(200*time.Millisecond, 1500*time.Millisecond))
	}
}

// soakClients is a group of clients that request one stream after the other, and the outcomes of their requests.
type soakClients struct {
	wg     sync.WaitGroup
	done   chan struct{}
	client *http.Client

	calm func() bool // reports that no fault is active

	mu      sync.Mutex
	reasons map[string]int // internal errors by reason
	calmly  int            // requests that began without an active fault
	// Of the calmly requests, those refused with 503.
	calmlyAway int
	sent       int
	whole      int
	tokens     int
	refused    map[string]int // rejected requests by error type
	wrong      []string
}

// soakGroups is the number of different prefixes of prompts.
const soakGroups = 50

// soakPrompt returns the prefix of the prompts of a group: three blocks of tokens.
func soakPrompt(group int) []uint32 {
	r := rand.New(rand.NewPCG(uint64(group), 7))
	all := make([]uint32, 3*64)
	for i := range all {
		all[i] = r.Uint32N(2000)
	}
	return all
}

// startClients starts the given number of clients.
func startClients(at string, streams int, calm func() bool) *soakClients {
	c := &soakClients{calm: calm, done: make(chan struct{}), refused: map[string]int{}, reasons: map[string]int{}}
	c.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}, Timeout: clusterLimit}
	for i := range streams {
		c.wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for {
				select {
				case <-c.done:
					return
				default:
				}
				if kind := c.ask(at, r); kind != "" {
					time.Sleep(time.Duration(50+r.IntN(200)) * time.Millisecond) // real clients also pause between requests
				}
			}
		})
	}
	return c
}

// ask requests one stream and counts its outcome. ask returns the type of the stream's error, or "".
func (c *soakClients) ask(at string, r *rand.Rand) string {
	calm := c.calm()
	prompt := append(soakPrompt(r.IntN(soakGroups)), make([]uint32, r.IntN(100))...)
	want := 5 + r.IntN(40)
	body, _ := json.Marshal(map[string]any{"model": "mocker-model", "stream": true, "max_tokens": want, "prompt": prompt})
	answer, err := c.client.Post(at+"/v1/completions", "application/json", strings.NewReader(string(body)))
	if err != nil {
		return c.count(calm, 0, "", fmt.Sprintf("at %s no answer: %v", time.Now().Format(time.TimeOnly), err))
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		b, err := io.ReadAll(answer.Body)
		if kind := errorType(b); kind != "" && err == nil {
			c.note(answer.StatusCode, b)
			return c.count(calm, 0, fmt.Sprintf("%d %s", answer.StatusCode, kind), "")
		}
		return c.count(calm, 0, "", fmt.Sprintf("status %d: %.200s, %v", answer.StatusCode, b, err))
	}
	tokens, ends, kind := 0, 0, ""
	in := bufio.NewScanner(answer.Body)
	for in.Scan() {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			ends++
		case errorType([]byte(data)) != "":
			kind, ends = "event "+errorType([]byte(data)), ends+1
			c.note(0, []byte(data))
		default:
			tokens++
		}
	}
	switch {
	case ends != 1 || in.Err() != nil:
		return c.count(calm, tokens, "", fmt.Sprintf("%d ends after %d of %d tokens: %v", ends, tokens, want, in.Err()))
	case kind == "" && tokens != want:
		return c.count(calm, tokens, "", fmt.Sprintf("%d tokens, want %d", tokens, want))
	}
	return c.count(calm, tokens, kind, "")
}

// errorType returns the type of the error in b, or "" if b is not an error.
func errorType(b []byte) string {
	var e struct {
		Error struct{ Type, Message string }
	}
	if json.Unmarshal(b, &e) != nil || e.Error.Message == "" {
		return ""
	}
	return e.Error.Type
}

// soakIDs matches the ids, addresses and times in messages.
var soakIDs = regexp.MustCompile(`[0-9a-f]{8,}|[0-9.]+:[0-9]+(->[0-9.:]+)?|[0-9.]+m?s`)

// note records the reason of an error.
func (c *soakClients) note(status int, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reasons[fmt.Sprintf("%d %.300s", status, soakIDs.ReplaceAllString(string(b), "#"))]++
}

// count counts a finished request as whole, refused with an error type, or wrong.
func (c *soakClients) count(calm bool, tokens int, kind, wrong string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	c.tokens += tokens
	if calm {
		c.calmly++
		if strings.HasPrefix(kind, "503 ") {
			c.calmlyAway++
		}
	}
	switch {
	case wrong != "":
		c.wrong = append(c.wrong, wrong)
		return "wrong"
	case kind != "":
		c.refused[kind]++
	default:
		c.whole++
	}
	return kind
}

// end waits for the requests in flight and closes the connections.
func (c *soakClients) end() {
	close(c.done)
	c.wg.Wait()
	c.client.CloseIdleConnections()
}

// report fails the test if a request had a wrong outcome, or if too few requests succeeded.
func (c *soakClients) report(t *testing.T, length time.Duration) {
	t.Helper()
	t.Logf("%v: %d requests, %d whole, %d tokens; errors: %s", length, c.sent, c.whole, c.tokens, countsOf(c.refused))
	t.Logf("%d requests began outside faults, %d of them got 503", c.calmly, c.calmlyAway)
	if length >= time.Minute && c.calmlyAway*10 > c.calmly {
		t.Errorf("%d of %d requests outside faults got 503, want one of ten at most", c.calmlyAway, c.calmly)
	}
	for _, text := range slices.SortedFunc(maps.Keys(c.reasons), func(a, b string) int { return c.reasons[b] - c.reasons[a] }) {
		t.Logf("%6d %s", c.reasons[text], text)
	}
	for i, text := range c.wrong {
		if i < 10 {
			t.Error(text)
		}
	}
	if len(c.wrong) > 0 {
		t.Errorf("%d requests did not end in one terminal event or a typed error", len(c.wrong))
	}
	away := 0 // requests refused because NATS or all workers were away
	for kind, n := range c.refused {
		if strings.HasPrefix(kind, "503 ") {
			away += n
		}
	}
	if taken := c.sent - away; c.whole == 0 || c.whole < taken*9/10 {
		t.Errorf("%d of %d requests that were taken were whole, want nine of ten", c.whole, taken)
	}
}

// pause stops a process for a while.
func (s *fleetSoak) pause(m *member, length time.Duration) {
	m.signal(syscall.SIGSTOP)
	time.Sleep(length)
	m.signal(syscall.SIGCONT)
}
