package reference_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// offloadCase returns the differential case with that seed, with host memory added.
func offloadCase(seed uint64) *twinCase {
	c := newCase(seed)
	rng := rand.New(rand.NewPCG(seed, 43))
	size := c.config.BlockTokens
	for i := range c.lines {
		c.lines[i].out = max(c.lines[i].out, 1)
		c.config.Blocks = max(c.config.Blocks, cdiv(c.lines[i].in+c.lines[i].out, size))
	}
	if !c.config.ChunkedPrefill {
		c.config.MaxBatchedTokens = vllm.Unlimited
	}
	c.config.Offload = blocks.Offload{
		Blocks:            pick(rng, 1, 3, 10, 30, 1000),
		BytesPerToken:     1_000_000,
		BatchBlocks:       pick(rng, 1, 2, 5, 32),
		ToHostGBPerSecond: pick(rng, 0, 0.1, 1, 14, 1000),
		ToGPUGBPerSecond:  pick(rng, 0, 0.1, 1, 14, 1000),
	}
	return c
}

// TestOffloadRandom checks that random cases end with consistent counters, with -tags invariants for every block.
// Results must not depend on the number of passes per Step.
func TestOffloadRandom(t *testing.T) {
	cases := long.Cases(100, 300)
	met := make(map[string]int)
	for seed := range uint64(cases) {
		c := offloadCase(seed)
		arrivals, config := c.open()
		want, err := recordOf(reference.New(config), config.Tree, arrivals, schedulertest.OneByOne)
		if err == nil {
			err = follow(config, arrivals, want, met)
		}
		if errors.Is(err, errLong) {
			met["long"]++
			_, err = replay(reference.New(config), arrivals)
		}
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, c)
		}
		for _, stride := range []schedulertest.Stride{schedulertest.OneByOne, schedulertest.UntilArrival, schedulertest.Overshoot} {
			got, _ := recordOf(reference.New(config), config.Tree, arrivals, stride)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, stride %d: %s\n%s", seed, stride, firstDifference(got, want), c)
			}
		}
	}
	for what, least := range map[string]int{"from host": 50, "reached host": 500, "left host": 200, "preempted": 2000, "came back": 500, "long": 10} {
		if met[what] < least*cases/600 {
			t.Errorf("%s met %d times, want at least %d: %v", what, met[what], least, met)
		}
	}
}

// follow checks the admissions and tokens of a run, and compares its events with the sizes of the two memories.
func follow(config vllm.Config, arrivals []schedulertest.Arrival, steps []schedulertest.Step, met map[string]int) error {
	tiers := [2]map[uint64]bool{make(map[uint64]bool), make(map[uint64]bool)}
	tokens := make([]int, len(arrivals))
	for i, s := range steps {
		met["preempted"] += s.Preempted
		for _, a := range s.Admitted {
			if a.FromHost < 0 || a.FromHost > a.Reused || a.Reused > arrivals[a.Request].Request.InputTokens {
				return fmt.Errorf("pass %d: %+v", i, a)
			}
			if a.FromHost > 0 {
				met["from host"]++
			}
		}
		for _, m := range s.Marks {
			if m.Last {
				tokens[m.Request] = m.Tokens
			}
		}
		for _, e := range s.Events {
			if err := apply(tiers, e, met); err != nil {
				return fmt.Errorf("pass %d: %+v: %w", i, e, err)
			}
			if n := len(tiers[scheduler.HostPinned]); n > config.Offload.Blocks {
				return fmt.Errorf("pass %d: %d blocks in host memory, want at most %d", i, n, config.Offload.Blocks)
			}
		}
		// Events for stored blocks of a pass come before events for the blocks that it removed for them.
		if n := len(tiers[scheduler.Device]); n > config.Blocks {
			return fmt.Errorf("pass %d: %d blocks cached, want at most %d", i, n, config.Blocks)
		}
	}
	for id, n := range tokens {
		if want := arrivals[id].Request.OutputTokens; n != want {
			return fmt.Errorf("request %d ends after %d tokens, want %d", id, n, want)
		}
	}
	return nil
}

// apply applies an event to the contents of its memory.
func apply(tiers [2]map[uint64]bool, e scheduler.KVEvent, met map[string]int) error {
	tier := tiers[e.Tier]
	for _, b := range e.Stored {
		if tier[b.Seq] {
			return fmt.Errorf("%x is there", b.Seq)
		}
		tier[b.Seq] = true
		switch {
		case e.Tier == scheduler.HostPinned:
			met["reached host"]++
		case tiers[scheduler.HostPinned][b.Seq]:
			met["came back"]++
		}
	}
	if e.Tier == scheduler.Device && e.HasParent && len(e.Stored) > 0 && !tier[e.Parent] {
		return fmt.Errorf("parent %x is not there", e.Parent)
	}
	for _, h := range e.Removed {
		if !tier[h] {
			return fmt.Errorf("%x is not there", h)
		}
		delete(tier, h)
		if e.Tier == scheduler.HostPinned {
			met["left host"]++
		}
	}
	return nil
}

// TestOffloadUnneeded checks that host memory has no effect if the device has enough blocks.
func TestOffloadUnneeded(t *testing.T) {
	for seed := range uint64(300) {
		c := offloadCase(seed)
		c.config.Blocks = 1 << 20
		arrivals, config := c.open()
		got, err := recordOf(reference.New(config), config.Tree, arrivals, c.stride)
		config.Offload = blocks.Offload{}
		want, wantErr := recordOf(reference.New(config), config.Tree, arrivals, c.stride)
		if err != nil || wantErr != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %s\nerrors %v and %v\n%s", seed, firstDifference(got, want), err, wantErr, c)
		}
	}
}

// TestOffloadGate checks that host memory is used only if Blocks and BytesPerToken are both set.
func TestOffloadGate(t *testing.T) {
	run := func(o blocks.Offload) outcome {
		arrivals, config := rounds(3)
		o.BatchBlocks = 32
		config.Offload = o
		out, err := replay(reference.New(config), arrivals)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := run(blocks.Offload{})
	for _, o := range []blocks.Offload{{Blocks: 1000}, {BytesPerToken: 1}} {
		if got := run(o); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v makes a difference", o)
		}
	}
	if got := run(blocks.Offload{Blocks: 1000, BytesPerToken: 1}); reflect.DeepEqual(got, want) {
		t.Error("both together make no difference")
	}
}

// rounds returns n rounds of ten prompts of 32 blocks, one prompt after the other, and an engine with blocks for
// three of them.
func rounds(n int) ([]schedulertest.Arrival, vllm.Config) {
	var lines []line
	for i := range 10 * n {
		first := uint64(1 + 100*(i%10))
		lines = append(lines, line{sim.Time(1000 * i), 16 * 32, 4, sequence(first, first+31)})
	}
	arrivals, tree := arrivals(lines, 16, 16, prompt.Options{})
	config := plain(16)
	config.Tree, config.Blocks = tree, 100
	return arrivals, config
}

// TestOffloadBringsReuse runs ten prompts in turn with a cache for three, so that prompts never find their blocks.
// With host memory for ten prompts, all rounds except the first reuse blocks.
func TestOffloadBringsReuse(t *testing.T) {
	arrivals, config := rounds(3)
	without, err := replay(reference.New(config), arrivals)
	if err != nil {
		t.Fatal(err)
	}
	config.Offload = blocks.Offload{Blocks: 400, BytesPerToken: 100_000, BatchBlocks: 32, ToHostGBPerSecond: 14, ToGPUGBPerSecond: 14}
	with, err := replay(reference.New(config), arrivals)
	if err != nil {
		t.Fatal(err)
	}
	if without.reuse() > 0.05 || with.reuse() < 0.6 {
		t.Errorf("%v of the prompts reused without host memory and %v with, want none and two thirds", without.reuse(), with.reuse())
	}
	// copying 32 blocks of 1.6 MB takes 3.66 ms; computing 512 tokens takes longer
	if a, b := without.records[25], with.records[25]; b.first-b.arrived >= a.first-a.arrived {
		t.Errorf("first token after %v ms with host memory, %v without", b.first-b.arrived, a.first-a.arrived)
	}
}

// TestOffloadFindsEverything runs cases with unlimited host memory and instant transfers. Every earlier prefix is
// found again, independent of the size of the device.
func TestOffloadFindsEverything(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		c := offloadCase(seed)
		c.config.PrefixCaching, c.config.MaxBatchedTokens, c.config.MaxSeqs = true, vllm.Unlimited, vllm.Unlimited
		c.config.Offload = blocks.Offload{Blocks: 1 << 20, BytesPerToken: 1, BatchBlocks: 4}
		c.config.Blocks = 1
		for i := range c.lines {
			c.lines[i].at = sim.Time(i) * (1 << 20)
			c.config.Blocks = max(c.config.Blocks, cdiv(c.lines[i].in+c.lines[i].out, c.config.BlockTokens))
		}
		arrivals, config := c.open()
		steps, err := recordOf(reference.New(config), config.Tree, arrivals, c.stride)
		if errors.Is(err, errLong) {
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, c)
		}
		for id, got := range firstAdmissions(steps, len(arrivals)) {
			want := longestBefore(config, arrivals, id)
			if got.Reused != want {
				t.Fatalf("seed %d: request %d reuses %d tokens, want %d\n%s", seed, id, got.Reused, want, c)
			}
			found += got.FromHost
		}
	}
	if found < 1000 {
		t.Errorf("%d tokens came from host memory, want at least 1000", found)
	}
}

func firstAdmissions(steps []schedulertest.Step, n int) []scheduler.Admission {
	first := make([]scheduler.Admission, n)
	seen := make([]bool, n)
	for _, s := range steps {
		for _, a := range s.Admitted {
			if !seen[a.Request] {
				first[a.Request], seen[a.Request] = a, true
			}
		}
	}
	return first
}

// longestBefore returns the number of tokens in the longest prefix of full blocks that request id has in common with
// an earlier request.
func longestBefore(config vllm.Config, arrivals []schedulertest.Arrival, id int) int {
	longest := 0
	r := arrivals[id].Request
	blocks := func(p prompt.Prompt) []uint64 {
		_, sequence := config.Tree.Hashes(p)
		return sequence
	}
	mine := blocks(r.Prompt)
	for _, a := range arrivals[:id] {
		theirs := blocks(a.Request.Prompt)
		n := 0
		for n < len(mine) && n < len(theirs) && mine[n] == theirs[n] {
			n++
		}
		longest = max(longest, n)
	}
	return longest * config.BlockTokens
}
