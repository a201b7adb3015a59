package sglang

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// closedLoop keeps inFlight of requests on core until all are done, and counts
// the passes.
func closedLoop(core scheduler.Core, requests []*sim.Request, inFlight int) (passes int, end sim.Time, err error) {
	var p scheduler.Pass
	next := 0
	for next < len(requests) || core.Load() > 0 {
		for next < len(requests) && core.Load() < inFlight {
			core.Submit(requests[next])
			next++
		}
		until := end
		if next == len(requests) || core.Load() == inFlight {
			until = 1e18
		}
		if err := core.Step(end, until, &p); err != nil {
			return passes, end, err
		}
		passes += p.Count
		end = p.End
	}
	return passes, end, nil
}

func uniqueRequests(tree *prompt.Tree, n, in, out int) []*sim.Request {
	prompts := tree.AddSynthetic(n, in)
	requests := make([]*sim.Request, n)
	for i := range requests {
		requests[i] = &sim.Request{ID: sim.RequestID(i), InputTokens: in, OutputTokens: out, Prompt: prompts.At(i)}
	}
	return requests
}

// sharingRequests begin with one of few long prefixes.
func sharingRequests(tree *prompt.Tree, n, in, out int) []*sim.Request {
	requests := make([]*sim.Request, n)
	for i := range requests {
		ids := make([]uint64, (in+63)/64)
		for k := range ids {
			ids[k] = uint64(i%16 + 16*k)
			if k >= len(ids)/2 {
				ids[k] = uint64(1<<20 + i*len(ids) + k)
			}
		}
		requests[i] = &sim.Request{ID: sim.RequestID(i), InputTokens: in, OutputTokens: out, Prompt: tree.Add(ids, in)}
	}
	return requests
}

// 4,096 requests of 1,024 tokens with answers of 2,048, 128 in flight.
func BenchmarkClosedLoop(b *testing.B) {
	for _, rules := range []string{"compat", "default"} {
		for _, page := range []int{1, 16, 64} {
			for _, prompts := range []string{"unique", "sharing"} {
				for _, tokens := range []int{1 << 23, 1 << 18} {
					if tokens == 1<<18 && rules == "compat" {
						continue // stalls: what is cached fills the pool
					}
					b.Run(fmt.Sprintf("rules=%s/page=%d/prompts=%s/pool=%d", rules, page, prompts, tokens), func(b *testing.B) {
						benchClosedLoop(b, rules, page, prompts, tokens)
					})
				}
			}
		}
	}
}

func benchClosedLoop(b *testing.B, rules string, page int, prompts string, tokens int) {
	c := config(CompatRules(), page, tokens/page)
	if rules == "default" {
		c.Rules = DefaultRules()
	}
	c.Tree = prompt.NewTree(64, page, prompt.Options{})
	make := uniqueRequests
	if prompts == "sharing" {
		make = sharingRequests
	}
	requests := make(c.Tree, 4096, 1024, 2048)
	passes := 0
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		core, err := New(c)
		if err != nil {
			b.Fatal(err)
		}
		n, _, err := closedLoop(core, requests, 128)
		if err != nil {
			b.Fatal(err)
		}
		passes += n
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(passes), "ns/pass")
	b.ReportMetric(float64(passes)/float64(b.N), "passes")
}

// A warm core allocates nothing, whatever the pass does.
func TestNoAllocations(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the checks of invariants allocate")
	}
	for _, rules := range []Rules{CompatRules(), DefaultRules()} {
		for _, capture := range []scheduler.Capture{scheduler.CaptureNone, scheduler.CaptureResidency} {
			c := config(rules, 16, 400)
			c.Capture = capture
			c.Tree = prompt.NewTree(64, 16, prompt.Options{})
			requests := sharingRequests(c.Tree, 3000, 300, 17)
			if !rules.Pages {
				c.Pages = 1 << 20 // the reference's pool fills up with what it cannot evict
			}
			core, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			var p scheduler.Pass
			next, preempted, evicted := 0, 0, 0
			now := sim.Time(0)
			step := func() {
				for core.Load() < 24 {
					core.Submit(requests[next%len(requests)])
					next++
				}
				if err := core.Step(now, now, &p); err != nil {
					t.Fatal(err)
				}
				now = p.End
				preempted += p.Preempted
				evicted += len(p.KV)
			}
			for range 5000 {
				step()
			}
			preempted = 0
			allowed := 0.0
			if !rules.Pages {
				allowed = 1 // a pool without end: the tree grows for ever
			}
			if n := testing.AllocsPerRun(2000, step); n > allowed {
				t.Errorf("%v allocations per pass, want %v", n, allowed)
			}
			if rules.Pages && (preempted == 0 || capture == scheduler.CaptureResidency && evicted == 0) {
				t.Errorf("%d retractions, %d changes of residency; want some", preempted, evicted)
			}
		}
	}
}

// The whole Mooncake conversation trace on one worker.
func BenchmarkConversation(b *testing.B) {
	for _, rules := range []string{"compat", "default"} {
		for _, policy := range []string{"fifo", "lpm"} {
			for _, pages := range []int{1 << 20, 1 << 14} {
				if rules == "compat" && pages == 1<<14 {
					continue // stalls
				}
				b.Run(fmt.Sprintf("rules=%s/policy=%s/pages=%d", rules, policy, pages), func(b *testing.B) {
					benchConversation(b, rules, policy, pages)
				})
			}
		}
	}
}

func benchConversation(b *testing.B, rules, policy string, pages int) {
	c := config(CompatRules(), 64, pages)
	if rules == "default" {
		c.Rules = DefaultRules()
	}
	if policy == "lpm" {
		c.Policy = LPM
	}
	rows := loadTrace(b, "mooncake_conversation.jsonl")
	passes := 0
	b.ReportAllocs()
	for range b.N {
		b.StopTimer()
		w := newWorkload(c, 512, rows)
		w.each = func(*scheduler.Pass) { passes++ }
		b.StartTimer()
		if err := w.play(c, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(passes), "ns/pass")
	b.ReportMetric(float64(passes)/float64(b.N), "passes")
}
