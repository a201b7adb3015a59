package reference

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/sim"
)

// example is a worked example of the specification: a trace, its passes, and its report.
type example struct {
	name       string
	config     sglang.Config
	traceBlock int
	trace      []line
	passes     string     // transcript; "": not checked
	ttft       []sim.Time // time to first token of each request; negative: not specified
	reused     []int
	duration   sim.Time
}

func (e *example) check(t *testing.T) {
	got, x := transcript(t, e.config, e.traceBlock, e.trace)
	if want := outdent(e.passes); want != "" && got != want {
		t.Errorf("passes are\n%swant\n%s", got, want)
	}
	for i, want := range e.ttft {
		if want < 0 {
			continue
		}
		if ttft := x.first[i] - x.arrivals[i]; !same(ttft, want) {
			t.Errorf("request %d: first token after %s, want %s", i, num(ttft), num(want))
		}
	}
	for i, want := range e.reused {
		if x.reused[i] != want {
			t.Errorf("request %d: %d tokens reused, want %d", i, x.reused[i], want)
		}
	}
	if !same(x.now, e.duration) {
		t.Errorf("duration is %s, want %s\n%s", num(x.now), num(e.duration), got)
	}
}

// outdent removes the indentation of a transcript.
func outdent(s string) string {
	var b strings.Builder
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			b.WriteString(l + "\n")
		}
	}
	return b.String()
}

func with(c sglang.Config, set func(*sglang.Config)) sglang.Config {
	set(&c)
	return c
}

func chunk64(c *sglang.Config) { c.ChunkTokens = 64 }
func clip1(c *sglang.Config)   { c.ClipNewTokens = 1 }

// Examples of the reference's rules in docs/rules/sglang.md, with results that the reference printed.
func TestCompatExamples(t *testing.T) {
	examples := []example{
		{
			name:   "E1 one request",
			config: config(1, 16384), traceBlock: 512, trace: []line{r(0, 1000, 3, 0, 1)},
			passes: `
				0 admit 0:0 first 0 tokens 1 end 41.046479000000005 pool 15383/0/1001
				41.046479000000005 tokens 1 end 49.99020300000001 pool 15382/0/1002
				49.99020300000001 last 0 tokens 1 end 58.93703200000001 pool 15381/1/0`,
			duration: 58.93703200000001,
		},
		{
			name: "E1 with speed-ups",
			config: with(config(1, 16384), func(c *sglang.Config) {
				c.Clock.Speedup, c.Clock.DecodeSpeedup = 3, 7
			}), traceBlock: 512, trace: []line{r(0, 1000, 3, 0, 1)},
			ttft: []sim.Time{11.127697}, duration: 11.979627999999998,
		},
		{
			name:   "E2 reuse is whole pages",
			config: config(16, 100), traceBlock: 64, trace: []line{r(0, 100, 1, 1, 2), r(500, 90, 1, 1, 2)},
			passes: `
				0 admit 0:0 first 0 last 0 tokens 1 end 27.039052 pool 1504/96/0
				500 admit 1:80 first 1 last 1 tokens 1 end 525.349916 pool 1504/16/0`,
			ttft: []sim.Time{27.039052, 25.349916000000007}, reused: []int{0, 80}, duration: 525.349916,
		},
		{
			name:   "E3 a batch shares nothing, and leaks",
			config: config(1, 200), traceBlock: 64,
			trace: []line{r(0, 40, 2, 1), r(0, 40, 2, 1), r(500, 40, 2, 1)},
			passes: `
				0 admit 0:0 admit 1:0 first 0 first 1 tokens 2 end 40.94439 pool 118/0/42
				40.94439 last 0 last 1 tokens 2 end 64.501596 pool 116/2/0
				500 admit 2:40 first 2 tokens 1 end 532.01382 pool 115/2/41
				532.01382 last 2 tokens 1 end 547.744146 pool 114/3/0`,
			ttft: []sim.Time{40.94439, 40.94439, 32.01382000000001}, reused: []int{0, 0, 40}, duration: 547.744146,
		},
		{
			name:   "E4 chunks",
			config: with(config(1, 1000), chunk64), traceBlock: 64, trace: []line{r(0, 150, 2, 1, 2, 3)},
			passes: `
				0 admit 0:0 tokens 0 end 17.474885 pool 936/0/64
				17.474885 admit 0:64 tokens 0 end 34.94977 pool 872/0/128
				34.94977 admit 0:128 first 0 tokens 1 end 65.047779 pool 849/0/151
				65.047779 last 0 tokens 1 end 78.356391 pool 848/1/0`,
			ttft: []sim.Time{65.047779}, reused: []int{128}, duration: 78.356391,
		},
		{
			name:   "E5 two prompts, one chunk budget",
			config: with(config(16, 40), chunk64), traceBlock: 32,
			trace: []line{r(0, 40, 3, 7, 8), r(0, 100, 2, 7, 9, 10, 11)},
			passes: `
				0 admit 0:0 admit 1:0 first 0 tokens 1 end 26.368091 pool 583/0/32
				26.368091 admit 1:16 tokens 1 end 52.937355 pool 518/0/80
				52.937355 admit 1:80 last 0 first 1 tokens 2 end 86.198939 pool 507/0/96
				86.198939 last 1 tokens 1 end 99.821343 pool 512/16/0`,
			ttft: []sim.Time{26.368091, 86.198939}, reused: []int{0, 80}, duration: 99.821343,
		},
		{
			name:   "E7 retraction",
			config: with(config(4, 10), clip1), traceBlock: 8,
			trace: []line{r(0, 8, 6, 1), r(0, 8, 6, 2), r(0, 8, 6, 3)},
			passes: `
				0 admit 0:0 admit 1:0 admit 2:0 first 0 first 1 first 2 tokens 3 end 45.745665 pool 13/0/24
				45.745665 tokens 3 end 76.21462700000001 pool 10/0/24
				76.21462700000001 tokens 3 end 107.983377 pool 7/0/24
				107.983377 tokens 3 end 140.76234 pool 4/0/36
				140.76234 retract 2 tokens 1 end 174.26193999999998 pool 3/8/12
				174.26193999999998 last 1 tokens 1 end 194.836402 pool 4/12/0
				194.836402 admit 0:0 tokens 1 end 231.146484 pool 3/8/12
				231.146484 last 0 tokens 1 end 251.720946 pool 4/20/0
				251.720946 admit 2:0 tokens 1 end 288.031028 pool 3/16/12
				288.031028 last 2 tokens 1 end 308.60549 pool 4/28/0`,
			ttft: []sim.Time{45.745665, 45.745665, 45.745665}, duration: 308.60549,
		},
		{
			name:   "E8 slots freed twice",
			config: with(config(4, 5), clip1), traceBlock: 16, trace: []line{r(0, 11, 3, 1), r(10, 4, 3, 1)},
			passes: `
				0 admit 0:0 first 0 tokens 1 end 44.327639000000005 pool 8/0/12
				44.327639000000005 admit 1:4 retract 1 tokens 1 end 93.303459 pool 11/0/12
				93.303459 admit 1:4 last 0 first 1 tokens 2 end 142.85622899999998 pool 11/8/4
				142.85622899999998 tokens 1 end 160.48997899999998 pool 10/8/4
				160.48997899999998 last 1 tokens 1 end 180.11637899999997 pool 12/8/0`,
			ttft: []sim.Time{44.327639000000005, 132.85622899999998}, duration: 180.11637899999997,
		},
		{
			name:   "E9 fifo",
			config: with(config(1, 1000), chunk64), traceBlock: 64,
			trace: []line{r(0, 64, 1, 1), r(100, 64, 1, 2), r(100, 64, 1, 1)},
			ttft:  []sim.Time{26.566094, 26.566093999999993}, reused: []int{0, 0, 64}, duration: 152.15872299999998,
		},
		{
			name: "E9 lpm",
			config: with(config(1, 1000), func(c *sglang.Config) {
				c.ChunkTokens, c.Policy = 64, sglang.LPM
			}), traceBlock: 64,
			trace:  []line{r(0, 64, 1, 1), r(100, 64, 1, 2), r(100, 64, 1, 1)},
			ttft:   []sim.Time{26.566094, 52.15872299999998, 25.592628999999988},
			reused: []int{0, 0, 64}, duration: 152.15872299999998,
		},
		{
			name: "E9 a prompt waits for one that begins alike",
			config: with(config(1, 1000), func(c *sglang.Config) {
				c.ChunkTokens, c.Policy = 40, sglang.LPM
			}), traceBlock: 64,
			trace: []line{r(0, 40, 1, 1), r(0, 40, 1, 1), r(0, 40, 1, 2)},
			ttft:  []sim.Time{24.968647, 49.329283000000004, 74.29793000000001}, reused: []int{0, 40, 0}, duration: 74.29793000000001,
		},
		{
			name:   "E10 the reserve for running requests",
			config: config(1, 200), traceBlock: 64,
			trace: []line{r(0, 20, 2, 1), r(0, 20, 2, 2), r(5, 150, 7, 3, 4, 5)},
			ttft:  []sim.Time{32.621831, 32.621831, 94.125955}, duration: 291.296897,
		},
		{
			name: "E10 without a reserve",
			config: with(config(1, 200), func(c *sglang.Config) {
				c.Conservativeness = 0
			}), traceBlock: 64,
			trace: []line{r(0, 20, 2, 1), r(0, 20, 2, 2), r(5, 150, 7, 3, 4, 5)},
			ttft:  []sim.Time{32.621831, 32.621831, 80.27785500000002}, duration: 277.448797,
		},
	}
	for _, e := range append(examples, compatLRU()...) {
		t.Run(e.name, e.check)
	}
}

// lruTrace returns requests for three prompts in rotation.
func lruTrace() []line {
	return []line{r(0, 40, 1, 1), r(100, 40, 1, 2), r(200, 40, 1, 1), r(300, 40, 1, 3), r(400, 40, 1, 1), r(500, 40, 1, 2)}
}

func compatLRU() []example {
	return []example{
		{
			name:   "E6 the oldest leaf goes first",
			config: config(1, 130), traceBlock: 64, trace: lruTrace(),
			passes: `
				0 admit 0:0 first 0 last 0 tokens 1 end 37.030969 pool 89/41/0
				100 admit 1:0 first 1 last 1 tokens 1 end 137.030969 pool 48/82/0
				200 admit 2:40 first 2 last 2 tokens 1 end 236.422958 pool 47/43/0
				300 admit 3:0 first 3 last 3 tokens 1 end 337.03096899999997 pool 6/84/0
				400 admit 4:40 first 4 last 4 tokens 1 end 436.422958 pool 47/43/0
				500 admit 5:0 first 5 last 5 tokens 1 end 537.0309689999999 pool 6/84/0`,
			reused: []int{0, 0, 40, 0, 40, 0}, duration: 537.0309689999999,
		},
		{
			name:   "E6 eviction takes what is about to be looked up",
			config: config(1, 100), traceBlock: 64, trace: lruTrace(),
			reused: []int{0, 0, 0, 0, 0, 0}, duration: 540.335031,
		},
	}
}
