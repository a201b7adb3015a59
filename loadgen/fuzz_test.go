package loadgen

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// No input makes the reader panic; what it refuses it names the place of; what
// it accepts can be fed to the end.
func FuzzTrace(f *testing.F) {
	for _, seed := range []string{
		twoSessions, unsorted, agent, "",
		`["s",1e-3,null,10,2,[1],null,7]`,
		`{"x":[{"y":"\ud83d\ude00\\"},-1.5e+30,null],"timestamp":0.1,"output_length":1,"hash_ids":[18446744073709551615]}`,
		"{\"session_id\":\"request_2\",\"output_length\":1,\"hash_ids\":[]}\r\n\u2028\n{\"delay_ms\":5,\"output_tokens\":1,\"hash_ids\":[1]}",
	} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(7))
	}
	f.Fuzz(func(t *testing.T, text []byte, how uint8) {
		o := ReadOptions{TraceBlock: 16, Compat: how&1 != 0, MaxLine: 1 << 16}
		var w *Workload
		var err error
		if how&2 != 0 {
			w, err = ReadAgentic(bytes.NewReader(text), day, AgenticOptions{ReadOptions: o, SharedRatio: 0.5, Groups: 2})
		} else {
			w, err = ReadMooncake(bytes.NewReader(text), day, o)
		}
		if err != nil {
			if syntax := (*SyntaxError)(nil); !errors.As(err, &syntax) || !strings.HasPrefix(err.Error(), day) {
				t.Fatalf("error %v is a %T, want a *SyntaxError that names the file", err, err)
			}
			return
		}
		checkLinks(t, w)
		a := Admission{Speedup: 1.5, MaxInFlight: 2, Mode: Mode(how >> 2 & 1), Disaggregated: how&8 != 0}
		feed, err := NewFeed(w, noPrompts(len(w.Turns)), a)
		if err != nil {
			return
		}
		drain(t, feed, a, len(w.Turns))
	})
}

// drain takes everything a feed has, ending each request as soon as it came.
func drain(t testing.TB, feed Feed, a Admission, want int) {
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

func BenchmarkReadMooncake(b *testing.B) {
	for _, path := range []string{"../../shared/traces/mooncake_conversation.jsonl", "../testdata/traces/short.jsonl"} {
		b.Run(path[strings.LastIndexByte(path, '/')+1:], func(b *testing.B) {
			text, err := os.ReadFile(path)
			if err != nil {
				b.Skipf("the trace is not here: %v", err)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ReadMooncake(bytes.NewReader(text), path, ReadOptions{TraceBlock: 512}); err != nil {
					b.Fatal(err)
				}
			}
		})
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
