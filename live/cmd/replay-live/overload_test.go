package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// All of 400 requests, 200 at once, succeed on two workers and a frontend that share this machine.
func TestOverloadedFleet(t *testing.T) { askAtOnce(t, 400, 200) }

// All of 4,000 requests, 2,000 at once, succeed in each of three runs.
func TestOverloadedFleetLong(t *testing.T) {
	clusterRequest(t)
	for range 3 {
		askAtOnce(t, 4000, 2000)
	}
}

// askAtOnce sends requests to a new fleet, width at once, and fails the test unless each stream is complete.
func askAtOnce(t *testing.T, requests, width int) {
	t.Helper()
	c := newCompound(t)
	workers := []*member{c.worker("--max-num-seqs=1000"), c.worker("--max-num-seqs=1000")}
	front := c.front()
	awaitHealthy(t, front.HTTP)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: width}}
	l := &load{}
	turn, from := make(chan int), time.Now()
	var mu sync.Mutex
	var failed []string
	var wg sync.WaitGroup
	for range width {
		wg.Go(func() {
			for i := range turn {
				if err := l.ask(client, front.HTTP, i, 20); err != nil {
					mu.Lock()
					failed = append(failed, err.Error())
					mu.Unlock()
				}
			}
		})
	}
	for i := range requests {
		turn <- i
	}
	close(turn)
	wg.Wait()
	t.Logf("%d requests, %d at once: %d whole in %v; the workers have had %v", requests, width, l.whole.Load(), time.Since(from).Round(time.Millisecond),
		fmt.Sprint(workers[0].metric("dynamo_component_requests_total", ""), workers[1].metric("dynamo_component_requests_total", "")))
	for i, text := range failed {
		if i < 5 {
			t.Error(text)
		}
	}
	if len(failed) > 0 || int(l.whole.Load()) != requests {
		t.Errorf("%d of %d requests failed", len(failed), requests)
	}
	for _, m := range append(workers, front) {
		m.end()
	}
}
