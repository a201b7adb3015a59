package passes

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// run returns the passes of a small replay.
func run(t *testing.T, change func(*replay.Spec)) []Pass {
	t.Helper()
	args := engineargs.Default()
	args.Blocks, args.BlockTokens = 60, 16
	spec := replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 40, Input: 200, Output: 40, Interval: 20, Turns: 2, Delay: 5},
		Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(args, 2), Router: policy.KV},
	}
	change(&spec)
	log := &Log{}
	if _, err := spec.Run(context.Background(), replay.Streams{Observer: log}); err != nil {
		t.Fatal(err)
	}
	return log.Passes
}

func itself(id int32) int32 { return id }

// Written passes are read back unchanged.
func TestFile(t *testing.T) {
	all := run(t, func(*replay.Spec) {})
	lost := 0
	for i := range all {
		lost += len(all[i].Lost)
	}
	if len(all) < 100 || lost == 0 {
		t.Fatalf("%d passes, %d preemptions, want many and some", len(all), lost)
	}
	var b bytes.Buffer
	if err := (&Log{Passes: all}).Write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	empty := func(p *Pass) {
		for _, list := range []*[]int32{&p.Admitted, &p.Computed, &p.Chunks, &p.Lost} {
			if len(*list) == 0 {
				*list = nil
			}
		}
	}
	for i := range again {
		empty(&again[i])
		empty(&all[i])
	}
	if !reflect.DeepEqual(all, again) {
		t.Error("what was read is not what was written")
	}
	if _, err := ReadFile(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that there is no such file", err)
	}
	if err := os.WriteFile(path, b.Bytes()[:b.Len()/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("half a file: %v, want an error that names it", err)
	}
}

// Equal passes have no difference, for any division into runs.
func TestSame(t *testing.T) {
	a := run(t, func(*replay.Spec) {})
	b := run(t, func(*replay.Spec) {})
	if p := Part(a, b, itself); p != nil {
		t.Errorf("the same run parts: %v", p)
	}
	var single []Pass
	for _, p := range a {
		for i := range p.Count {
			one := p
			one.Start, one.Count = p.Start+float64(float64(i)*p.Gap), 1
			single = append(single, one)
		}
	}
	if len(single) == len(a) {
		t.Fatal("no runs of passes, want some")
	}
	if p := Part(a, single, itself); p != nil {
		t.Errorf("passes one by one part from their runs: %v", p)
	}
}

// Passes of different durations are stored separately, even if the scheduler core reports them as one run.
func TestUnequalPasses(t *testing.T) {
	all := run(t, func(s *replay.Spec) {
		s.Pools[0].Engine.Rules, s.Pools[0].Engine.PassTimes = releases.Rules033(), timing.ParseSource("roofline:h100/llama-3.1-8b")
	})
	longer, end := 0, map[int32]Pass{}
	for _, p := range all {
		before, ok := end[p.Worker]
		if p.Count != 1 || p.Gap != p.End-p.Start || ok && p.Start < before.End {
			t.Fatalf("pass %+v after %+v", p, before)
		}
		if ok && p.Start == before.End && p.Tokens == before.Tokens && p.Prompt == 0 && p.Gap > before.Gap {
			longer++
		}
		end[p.Worker] = p
	}
	if longer < 200 {
		t.Errorf("%d of %d passes are a bit longer than the one before, want many", longer, len(all))
	}
}

// Each kind of difference is found and described, at its pass.
func TestPart(t *testing.T) {
	a := []Pass{
		{Start: 0, End: 5, Gap: 5, Count: 1, Prompt: 30, Tokens: 2, Admitted: []int32{0, 1}, Computed: []int32{0, 1}, Chunks: []int32{10, 20}},
		{Start: 5, End: 11, Gap: 2, Count: 3, Tokens: 2},
		{Worker: 1, Start: 1, End: 3, Gap: 2, Count: 1, Tokens: 1, Admitted: []int32{2}},
		{Start: 11, End: 12, Gap: 1, Count: 1, Tokens: 1, Lost: []int32{1}},
	}
	for _, c := range []struct {
		change func([]Pass) []Pass
		want   string
	}{
		{func(b []Pass) []Pass { return b[:3] }, "pass 4 of worker 0 at 11 ms: passes: one in A; none in B"},
		{func(b []Pass) []Pass { b[0].Admitted = []int32{1, 0}; return b }, "pass 0 of worker 0 at 0 ms: admitted requests: 0, 1 in A; 1, 0 in B"},
		{func(b []Pass) []Pass { b[0].Chunks = []int32{10, 19}; return b }, "pass 0 of worker 0 at 0 ms: prompt tokens: 10 of 0, 20 of 1 in A; 10 of 0, 19 of 1 in B"},
		{func(b []Pass) []Pass { b[1].Count = 2; return b }, "pass 3 of worker 0 at 9 ms: start: at 9 ms in A; at 11 ms in B"},
		{func(b []Pass) []Pass { b[1].Gap = 1.5; return b }, "pass 1 of worker 0 at 5 ms: duration: 2 ms in A; 1.5 ms in B"},
		{func(b []Pass) []Pass { b[1].Tokens = 1; return b }, "pass 1 of worker 0 at 5 ms: answer tokens: 2 in A; 1 in B"},
		{func(b []Pass) []Pass { b[3].Lost = nil; return b }, "pass 4 of worker 0 at 11 ms: preempted requests: 1 in A; none in B"},
		{func(b []Pass) []Pass { b[2].Start, b[3].Tokens = 1.25, 7; return b }, "pass 0 of worker 1 at 1 ms: start: at 1 ms in A; at 1.25 ms in B"},
		{func(b []Pass) []Pass { return append(b, Pass{Decode: true, Start: 4, Count: 1}) }, "pass 0 of decode worker 0 at 4 ms: passes: none in A; one in B"},
		{func(b []Pass) []Pass { b[2].Admitted = []int32{9}; return b }, "pass 0 of worker 1 at 1 ms: admitted requests: 2 in A; another request in B"},
	} {
		b := c.change(append([]Pass(nil), a...))
		got := Part(a, b, func(id int32) int32 {
			if id == 9 {
				return -1
			}
			return id
		})
		if got == nil || got.String() != c.want {
			t.Errorf("got %v, want %s", got, c.want)
		}
	}
}

// A change in the middle of a run of passes is found at its pass, not before.
func TestPartsLate(t *testing.T) {
	a := run(t, func(*replay.Spec) {})
	b := run(t, func(s *replay.Spec) { s.Synthetic.Requests = 41 })
	p := Part(a, b, itself)
	if p == nil || p.AtMS < 400 {
		t.Errorf("parting %v, want one when one request more arrives", p)
	}
}
