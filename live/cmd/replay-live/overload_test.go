package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Four hundred requests, 200 at once, on a worker and a frontend with the processors of this
// machine end well, all of them.
func TestCrowdedFleet(t *testing.T) { askAtOnce(t, 400, 200) }

// So do 4,000, 2,000 at once, three times of three.
func TestCrowdedFleetLong(t *testing.T) {
	clusterRequest(t)
	for range 3 {
		askAtOnce(t, 4000, 2000)
	}
}

// askAtOnce asks a new fleet for streams, and fails the test unless each is whole and the worker
// was in rotation all the time.
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
