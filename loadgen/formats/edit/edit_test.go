package edit

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/loadgen/formats/write"
)

// text is a Source in memory.
type text string

func (s text) Open() (*formats.Stream, error) {
	return registry.NewStream(strings.NewReader(string(s)), "a.jsonl", formats.Options{})
}

// list collects records as lines in the Mooncake format.
type list struct {
	bytes.Buffer
	w *write.Writer
}

func newList(t *testing.T) *list {
	t.Helper()
	l := &list{}
	w, err := write.NewWriter(l, "mooncake", 512)
	if err != nil {
		t.Fatal(err)
	}
	l.w = w
	return l
}

func (l *list) Write(p []byte) (int, error) { return l.Buffer.Write(p) }

type sink struct{ l *list }

func (s sink) Write(r *formats.Record) error {
	if err := s.l.w.Write(r); err != nil {
		return err
	}
	return s.l.w.Flush()
}

// conversations returns a trace of n sessions with three turns each. All prompts have the same first block. The
// prompts of four consecutive sessions share further blocks.
func conversations(n int) text {
	var b strings.Builder
	for turn := range 3 {
		for i := range n {
			if turn == 0 {
				fmt.Fprintf(&b, `{"session_id":"c%d","timestamp":%d,"input_length":1600,"output_length":9,"hash_ids":[0,%d,%d,%d]}`+"\n", i, i*10, 1000+i/4, 2000+i, 3000+i)
			} else {
				fmt.Fprintf(&b, `{"session_id":"c%d","timestamp":%d,"input_length":1700,"output_length":9,"hash_ids":[0,%d,%d,%d]}`+"\n", i, i*10+turn*5000, 1000+i/4, 2000+i, 3000+i)
			}
		}
	}
	return text(b.String())
}

// sessions returns the number of turns by session.
func sessions(l *list) map[string]int {
	counts := map[string]int{}
	for line := range strings.Lines(l.String()) {
		if _, rest, ok := strings.Cut(line, `"session_id":"`); ok {
			name, _, _ := strings.Cut(rest, `"`)
			counts[name]++
		}
	}
	return counts
}

// A sample contains complete sessions, and its rows are unchanged. A larger fraction with the same seed contains all
// sessions of a smaller fraction.
func TestSample(t *testing.T) {
	trace := conversations(400)
	before := map[string]int{}
	for _, fraction := range []float64{0.1, 0.3, 0.6, 1} {
		l := newList(t)
		kept, err := Sample{Fraction: fraction, Seed: 7}.Run(trace, sink{l})
		if err != nil {
			t.Fatal(err)
		}
		counts := sessions(l)
		for name, turns := range counts {
			if turns != 3 {
				t.Errorf("fraction %v: %s has %d turns, want 3", fraction, name, turns)
			}
		}
		for name := range before {
			if counts[name] == 0 {
				t.Errorf("fraction %v: %s is gone, although a smaller sample has it", fraction, name)
			}
		}
		if share := float64(len(counts)) / 400; share < fraction-0.08 || share > fraction+0.08 || int(kept.Sessions.Value) != len(counts) {
			t.Errorf("fraction %v: %d of 400 sessions, %v counted", fraction, len(counts), kept.Sessions)
		}
		for line := range strings.Lines(l.String()) {
			if !strings.Contains(string(trace), line) {
				t.Fatalf("fraction %v: %s is not in the trace", fraction, line)
			}
		}
		before = counts
	}
}

// With KeepPrefixes, sessions with shared leading blocks are kept or dropped together.
func TestSampleKeepsPrefixes(t *testing.T) {
	l := newList(t)
	if _, err := (Sample{Fraction: 0.5, KeepPrefixes: true, MinShared: 1, Common: 0.5, Seed: 1}).Run(conversations(400), sink{l}); err != nil {
		t.Fatal(err)
	}
	counts := sessions(l)
	if len(counts) < 120 || len(counts) > 280 {
		t.Errorf("%d of 400 sessions, want about half", len(counts))
	}
	for i := range 100 {
		kept := 0
		for k := range 4 {
			if counts[fmt.Sprintf("c%d", 4*i+k)] > 0 {
				kept++
			}
		}
		if kept != 0 && kept != 4 {
			t.Errorf("%d sessions of family %d are kept, want none or all four", kept, i)
		}
	}
}

// A sample can select a number of sessions, or sessions with a first arrival in a time range.
func TestSampleByNumberAndTime(t *testing.T) {
	for _, c := range []struct {
		sample Sample
		want   int
	}{
		{Sample{Sessions: 25}, 25}, {Sample{Head: 10}, 10}, {Sample{From: 1000, To: 1100}, 10}, {Sample{Head: 10, Sessions: 4}, 4}, {Sample{}, 400},
	} {
		l := newList(t)
		if _, err := c.sample.Run(conversations(400), sink{l}); err != nil {
			t.Fatal(err)
		}
		if n := len(sessions(l)); n != c.want {
			t.Errorf("%+v: %d sessions, want %d", c.sample, n, c.want)
		}
	}
}

const two = `{"session_id":"x","timestamp":100,"input_length":1024,"output_length":10,"hash_ids":[70,80]}
{"timestamp":150,"input_length":600,"output_length":3,"hash_ids":[70,90]}
{"session_id":"x","timestamp":300,"input_length":1024,"output_length":10,"hash_ids":[70,80]}
`

// Each edit writes the expected rows for a trace of two sessions.
func TestEdits(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(Source, Sink) error
		want string
	}{
		{"rate", Scale{Rate: 2}.Run, `{"session_id":"x","timestamp":50,"input_length":1024,"output_length":10,"hash_ids":[70,80]}
{"timestamp":75,"input_length":600,"output_length":3,"hash_ids":[70,90]}
{"session_id":"x","delay":200,"input_length":1024,"output_length":10,"hash_ids":[70,80]}
`},
		{"delays", Scale{Delays: 3}.Run, `{"session_id":"x","timestamp":100,"input_length":1024,"output_length":10,"hash_ids":[70,80]}
{"timestamp":150,"input_length":600,"output_length":3,"hash_ids":[70,90]}
{"session_id":"x","delay":600,"input_length":1024,"output_length":10,"hash_ids":[70,80]}
`},
		{"lengths", Scale{Input: 2, Output: 0.5}.Run, `{"session_id":"x","timestamp":100,"input_length":2048,"output_length":5,"hash_ids":[0,1,2,3]}
{"timestamp":150,"input_length":1200,"output_length":2,"hash_ids":[0,1,4]}
{"session_id":"x","timestamp":300,"input_length":2048,"output_length":5,"hash_ids":[0,1,2,3]}
`},
		{"anonymize", Anonymize{First: 100, RoundMS: 20}.Run, `{"session_id":"s0","timestamp":0,"input_length":1024,"output_length":10,"hash_ids":[0,1]}
{"timestamp":60,"input_length":600,"output_length":3,"hash_ids":[0,2]}
{"session_id":"s0","delay":200,"input_length":1024,"output_length":10,"hash_ids":[0,1]}
`},
		{"merge", func(s Source, to Sink) error {
			return Merge{}.Run([]Source{s, text(`{"timestamp":7000,"output_length":1,"hash_ids":[70]}` + "\n")}, []float64{100, 7000}, 512, to)
		}, `{"session_id":"0:x","timestamp":0,"input_length":1024,"output_length":10,"hash_ids":[140,160]}
{"timestamp":0,"input_length":512,"output_length":1,"hash_ids":[141]}
{"timestamp":50,"input_length":600,"output_length":3,"hash_ids":[140,180]}
{"session_id":"0:x","timestamp":200,"input_length":1024,"output_length":10,"hash_ids":[140,160]}
`},
	} {
		l := newList(t)
		if err := c.run(text(two), sink{l}); err != nil {
			t.Fatal(err)
		}
		if l.String() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, l, c.want)
		}
	}
}

// Invalid factors, fractions and counts are rejected.
func TestRefused(t *testing.T) {
	for _, err := range []error{
		Scale{Rate: -1}.Run(text(two), nil),
		Scale{Input: -2}.Run(text(two), nil),
		second(Sample{Fraction: 2}.Run(text(two), nil)),
		second(Sample{Head: -1}.Run(text(two), nil)),
		second(Sample{KeepPrefixes: true}.Run(text(two), nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), "must be") {
			t.Errorf("%v, want what was wanted", err)
		}
	}
}

func second(_ *Kept, err error) error { return err }
