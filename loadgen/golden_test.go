package loadgen_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	. "github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/sim"
)

// With the recorded completion times of the reference, a feed returns exactly the arrivals of the reference, in the
// same order.
func TestArrivalsOfReference(t *testing.T) {
	golden := optional.Data(t, "golden")
	text, err := os.ReadFile(filepath.Join(golden, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Trace, Outcome string
		Args                 []string
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, c := range cases {
		path := filepath.Join("../testdata/traces", c.Trace)
		if _, err := os.Stat(path); err != nil || c.Trace == "" || c.Outcome != "ok" || slices.Contains(c.Args, "--replay-concurrency") {
			continue
		}
		ran++
		t.Run(c.Name, func(t *testing.T) {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			w, err := registry.Read(f, path, formats.Options{Format: formats.Mooncake, TraceBlock: 512, Compat: true})
			if err != nil {
				t.Fatal(err)
			}
			a := Admission{Speedup: 1, Disaggregated: slices.Contains(c.Args, "--num-prefill-workers")}
			if i := slices.Index(c.Args, "--arrival-speedup-ratio"); i >= 0 {
				if a.Speedup, err = strconv.ParseFloat(c.Args[i+1], 64); err != nil {
					t.Fatal(err)
				}
			}
			want := readGolden(t, filepath.Join(golden, c.Name+".requests.jsonl.gz"))
			feed, err := NewFeed(w, noPrompts(len(w.Turns)), a)
			if err != nil {
				t.Fatal(err)
			}
			checkArrivals(t, feed, want)
		})
	}
	if ran < 40 {
		t.Errorf("%d cases, want at least 40", ran)
	}
}

type goldenRequest struct {
	Arrival sim.Time `json:"arrival_ms"`
	Last    sim.Time `json:"last_token_ms"`
	Input   int      `json:"input_length"`
	Output  int      `json:"output_length"`
	Session int32    `json:"session"`
	Turn    int32    `json:"turn"`
	Order   int      `json:"arrival_order"`
}

// readGolden returns recorded requests in order of arrival.
func readGolden(t *testing.T, path string) []goldenRequest {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []goldenRequest
	for s := bufio.NewScanner(z); s.Scan(); {
		var r goldenRequest
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b goldenRequest) int { return a.Order - b.Order })
	return out
}

func checkArrivals(t *testing.T, feed *Feed, want []goldenRequest) {
	t.Helper()
	running := map[sim.RequestID]sim.Time{}
	now := sim.Time(0)
	for !feed.Done() || len(running) > 0 {
		end := sim.Time(math.Inf(1))
		for _, at := range running {
			end = min(end, at)
		}
		if at, ok := feed.Next(now, len(running)); ok && at < end {
			now = at
		} else {
			now = end
		}
		for id, at := range running {
			if at == now { // finish all requests that end at this time before new requests arrive
				if err := feed.Finish(id, now); err != nil {
					t.Fatal(err)
				}
				delete(running, id)
			}
		}
		for _, a := range feed.Take(now, len(running), nil) {
			r := a.Request
			g := want[r.ID]
			if a.At != g.Arrival || r.Session != g.Session || r.Turn != g.Turn || r.InputTokens != g.Input || r.OutputTokens != g.Output {
				t.Fatalf("request %d is %+v at %v, want %+v", r.ID, *r, float64(a.At), g)
			}
			running[r.ID] = g.Last
			want[r.ID].Order = -1
		}
	}
	for i := range want {
		if want[i].Order >= 0 {
			t.Fatalf("request %d never came", i)
		}
	}
}
