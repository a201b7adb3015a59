package loadgen_test

import (
	. "github.com/replay-llm/replay/loadgen"

	"testing"

	"github.com/replay-llm/replay/sim"
)

// drain takes all requests of a feed and finishes each request when it arrives.
func drain(t testing.TB, feed *Feed, a Admission, want int) {
	t.Helper()
	now, got, last := sim.Time(0), 0, sim.Time(0)
	var arrivals []Arrival
	for !feed.Done() {
		arrivals = feed.Take(now, 0, arrivals[:0])
		if len(arrivals) == 0 {
			next, ok := feed.Next(now, 0)
			if !ok || next <= now {
				t.Fatalf("%d of %d requests came by %v, and next is %v %v", got, want, now, next, ok)
			}
			now = next
			continue
		}
		for _, arrival := range arrivals {
			if int(arrival.Request.ID) != got || arrival.At > now || arrival.At < last {
				t.Fatalf("request %d at %v after %d requests, the last at %v; it is %v", arrival.Request.ID, arrival.At, got, last, now)
			}
			got++
			last = arrival.At
			if a.Mode == Concurrency && len(arrivals) > a.MaxInFlight {
				t.Fatalf("%d requests at once, want at most %d", len(arrivals), a.MaxInFlight)
			}
		}
		for _, arrival := range arrivals {
			if err := feed.Finish(arrival.Request.ID, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got != want {
		t.Fatalf("%d requests came, want %d", got, want)
	}
}

func BenchmarkDriver(b *testing.B) {
	w, err := NewSynthetic(Synthetic{Requests: 100000, Input: 64, Output: 1, Turns: 3, Delay: 5, Block: 64})
	if err != nil {
		b.Fatal(err)
	}
	prompts := noPrompts(len(w.Turns))
	b.ReportAllocs()
	for b.Loop() {
		feed, err := NewFeed(w, prompts, Admission{Mode: Concurrency, MaxInFlight: 64})
		if err != nil {
			b.Fatal(err)
		}
		drain(b, feed, Admission{Mode: Concurrency, MaxInFlight: 64}, len(w.Turns))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(w.Turns)), "ns/request")
}
