package main

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/internal/poll"
)

// One worker process and four give the same bytes, as does no queue at all, and
// four are faster.
func TestSweepWorkers(t *testing.T) {
	onRequest(t)
	grid, count := sized()
	cores := min(runtime.NumCPU(), 4)
	want := newSite(t).local(grid)
	if lines := strings.Count(want, "\n"); lines != count+1 {
		t.Fatalf("%d lines, want one per cell and a head", lines)
	}
	rounds := 1
	if *fullSweep {
		rounds = 3
	}
	var faster []float64
	for range rounds {
		took := map[int]time.Duration{}
		for _, workers := range []int{1, 4} {
			s := newSite(t)
			id := s.submit(grid...)
			started := time.Now()
			var all []*process
			for range workers {
				all = append(all, s.worker("--drain"))
			}
			for _, p := range all {
				if code := s.wait(p); code != 0 {
					t.Fatalf("worker: exit %d: %s", code, &p.err)
				}
			}
			took[workers] = time.Since(started)
			if got := s.collect(id); got != want {
				t.Errorf("%d workers: another table\n%s\nthan\n%s", workers, got, want)
			}
		}
		faster = append(faster, took[1].Seconds()/took[4].Seconds())
		t.Logf("%d cells: %v with 1 worker, %v with 4 on %d cores", count, took[1], took[4], runtime.NumCPU())
	}
	slices.Sort(faster)
	if median := faster[len(faster)/2]; *fullSweep && median < 0.8*float64(cores) {
		t.Errorf("four workers are %.2f times as fast as one in the median of %d rounds, want %.2f", median, rounds, 0.8*float64(cores))
	}
}

// Workers are killed all the time: every cell has one result, and none is lost.
func TestSweepKilledWorkers(t *testing.T) {
	onRequest(t)
	grid, count := sized()
	pause, least := 250*time.Millisecond, 1
	if *fullSweep {
		grid, count = cells(200, 100_000), 200 // long enough for several kills
		pause, least = 2*time.Second, 5
	}
	s := newSite(t)
	want := s.local(grid)
	id := s.submit(grid...)
	workers := []*process{s.worker(), s.worker()}
	kills, done := 0, 0
	for done < count {
		time.Sleep(pause)
		victim := workers[kills%2]
		if err := victim.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-victim.ended
		workers[kills%2] = s.worker()
		if kills++; kills > 200 {
			t.Fatalf("%v after %d kills", s.status(id), kills)
		}
		now := s.status(id)["done"]
		if now == done && !*fullSweep {
			pause *= 2 // a busy machine starts nothing in that time
		}
		done = now
	}
	if got := s.status(id); kills < least || got["done"] != count || got["dead"] != 0 || got["cells"] != count {
		t.Errorf("%v after %d kills, want %d done and at least %d kills", got, kills, count, least)
	}
	if got := s.collect(id); got != want {
		t.Errorf("another table than without kills:\n%s", got)
	}
	t.Logf("%d kills, %d cells begun for %d results", kills, len(s.begun()), count)
}

// The server is restarted in the middle: the sweep ends, and what had a result
// is not run again.
func TestSweepServerRestart(t *testing.T) {
	onRequest(t)
	grid, count := sized()
	s := newSite(t)
	want := s.local(grid)
	id := s.submit(grid...)
	workers := []*process{s.worker(), s.worker()}
	poll.Until(t, "a quarter of the cells is done", func() bool { return s.status(id)["done"] >= count/4 })
	before, _ := s.sweep(cli.ExitIncomplete, "collect", id, "--output", "csv")
	port, err := strconv.Atoi(s.url[strings.LastIndexByte(s.url, ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	mark := len(s.begun())
	s.broker.Stop()
	time.Sleep(time.Second)
	s.start(port)
	out, _ := s.sweep(0, "collect", id, "--wait", "--output", "csv")
	if out != want {
		t.Errorf("another table than without a restart:\n%s", out)
	}
	for _, p := range workers {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := s.wait(p); code != cli.ExitTerminated {
			t.Errorf("worker: exit %d: %s", code, &p.err)
		}
	}
	stored := finished(before)
	if len(stored) == 0 || len(stored) == count {
		t.Fatalf("%d of %d cells were done before the restart, want some", len(stored), count)
	}
	after := s.begun()[mark:]
	for _, cell := range stored {
		if slices.ContainsFunc(after, func(line string) bool { return begins(line, cell) }) {
			t.Errorf("%v was run again", cell)
		}
	}
	t.Logf("%d cells done before the restart, %d begun after it", len(stored), len(after))
}

// finished are the cells of a table that have a report: workers, router, speedup.
func finished(table string) (all [][]string) {
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		if fields := strings.Split(line, ","); !strings.HasSuffix(line, "not finished") {
			all = append(all, fields[1:4])
		}
	}
	return all
}

// begins reports whether a line of the log begins a cell.
func begins(line string, cell []string) bool {
	for i, name := range []string{"workers", "router", "speedup"} {
		if !strings.Contains(line, fmt.Sprintf(`{"name":%q,"value":%q}`, name, cell[i])) {
			return false
		}
	}
	return true
}
