package sglang

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/sim"
)

// Ranks in lockstep pass the suite of all cores, and support cancellation.
func TestRanks(t *testing.T) {
	for _, how := range []Balance{RoundRobin, BootstrapRoom, TotalRequests, TotalTokens} {
		for name, change := range variants() {
			if how != RoundRobin && name != "overlap" || strings.HasPrefix(name, "host") {
				continue
			}
			build := func(s schedulertest.Setup) scheduler.Core {
				c := suiteConfig(s, change)
				c.ChunkTokens *= 3
				if c.Capture == scheduler.CaptureResidency {
					c.Capture = scheduler.CaptureEvents
				}
				core, err := NewRanks(c, 3, how)
				if err != nil {
					t.Fatal(err)
				}
				return core
			}
			t.Run(name, func(t *testing.T) {
				schedulertest.Run(t, build)
				schedulertest.RunCancel(t, true, build)
			})
		}
	}
}

// A rank aborts its last running request if the next token has no room, while another rank runs a request. All other
// requests gain all their tokens.
func TestRanksAbort(t *testing.T) {
	for _, overlap := range []bool{false, true} {
		c := config(1, 400)
		c.Window, c.WindowPages, c.Overlap = 16, 100, overlap
		core, err := NewRanks(c, 2, RoundRobin)
		if err != nil {
			t.Fatal(err)
		}
		submit := func(id, output int) {
			core.Submit(&sim.Request{ID: sim.RequestID(id), InputTokens: 1, OutputTokens: output, Prompt: c.Tree.Add([]uint64{uint64(id)}, 1)})
		}
		for id, output := range []int{300, 60, 5} {
			submit(id, output)
		}
		aborts, ended := 0, [4]int{}
		var p scheduler.Pass
		for now := sim.Time(0); core.Load() > 0; now = p.End {
			if err := core.Step(now, now, &p); err != nil {
				t.Fatalf("overlap %v: %v", overlap, err)
			}
			for _, a := range p.Aborted {
				if aborts++; a.Request != 0 || a.Tokens < 1 || a.Tokens >= 300 || ended[3] > 0 {
					t.Errorf("overlap %v: aborted %+v when %v had ended, want request 0 while request 3 runs", overlap, a, ended)
				}
			}
			for _, m := range p.Marks {
				if m.Last {
					ended[m.Request] = m.Tokens
				}
				if m.Last && m.Request == 1 {
					submit(3, 60)
				}
			}
		}
		if aborts != 1 || ended != [4]int{0, 60, 5, 60} {
			t.Errorf("overlap %v: %d aborts, answers of %v tokens, want one abort and 0, 60, 5 and 60", overlap, aborts, ended)
		}
	}
}

// The server divides chunks and max_running_requests among ranks, and reserves fewer tokens for outputs.
func TestOfRank(t *testing.T) {
	c := config(16, 100)
	c.ChunkTokens, c.MaxRunning = 800, 9
	if got := ofRank(c, 4); got.ChunkTokens != 192 || got.MaxRunning != 2 || got.Conservativeness != 0.3 || got.Pages != 100 {
		t.Errorf("each of 4 ranks has chunks of %d, %d seats, conservativeness %v and %d pages, want 192, 2, 0.3 and 100",
			got.ChunkTokens, got.MaxRunning, got.Conservativeness, got.Pages)
	}
	if got := ofRank(c, 1); got.ChunkTokens != 800 || got.MaxRunning != 9 || got.Conservativeness != 1 {
		t.Errorf("one rank has %+v, want what it was given", got)
	}
	c.ChunkTokens = 32
	want := "chunked_prefill_size is 32 over 4 ranks, must be at least block_size 16 for each"
	if _, err := NewRanks(c, 4, RoundRobin); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// The default is round robin, and on prefill workers the bootstrap room.
func TestParseBalance(t *testing.T) {
	for _, c := range []struct {
		name string
		role scheduler.Role
		want Balance
	}{
		{"auto", scheduler.Aggregated, RoundRobin}, {"auto", scheduler.Decode, RoundRobin}, {"auto", scheduler.Prefill, BootstrapRoom},
		{"round_robin", scheduler.Prefill, RoundRobin}, {"total_requests", scheduler.Prefill, TotalRequests},
		{"total_tokens", scheduler.Aggregated, TotalTokens}, {"follow_bootstrap_room", scheduler.Decode, BootstrapRoom},
	} {
		if got := ParseBalance(c.name, c.role); got != c.want {
			t.Errorf("%s of a worker that is %v: %d, want %d", c.name, c.role, got, c.want)
		}
	}
}
