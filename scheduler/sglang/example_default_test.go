package sglang

import (
	"testing"

	"github.com/replay-llm/replay/sim"
)

// The examples of docs/rules/sglang.md under the default rules.
func TestDefaultExamples(t *testing.T) {
	for _, e := range append(append(defaultReuse(), defaultQueue()...), defaultTight()...) {
		t.Run(e.name, e.check)
	}
}

func defaultReuse() []example {
	rules := DefaultRules()
	return []example{
		{
			name:   "E1 all that is unlocked is evictable",
			config: config(rules, 1, 16384), traceBlock: 512, trace: []line{r(0, 1000, 3, 0, 1)},
			passes: `
				0 admit 0:0 first 0 tokens 1 end 41.046479000000005 pool 15383/0/1000+1
				41.046479000000005 tokens 1 end 49.99020300000001 pool 15382/0/1000+2
				49.99020300000001 last 0 tokens 1 end 58.93703200000001 pool 15381/1003/0`,
			duration: 58.93703200000001,
		},
		{
			name:   "E2 reuse is whole pages",
			config: config(rules, 16, 100), traceBlock: 64, trace: []line{r(0, 100, 1, 1, 2), r(500, 90, 1, 1, 2)},
			passes: `
				0 admit 0:0 first 0 last 0 tokens 1 end 27.039052 pool 1504/96/0
				500 admit 1:80 first 1 last 1 tokens 1 end 525.349916 pool 1504/96/0`,
			reused: []int{0, 80}, duration: 525.349916,
		},
		{
			name:   "E3 a batch shares in the end",
			config: config(rules, 1, 200), traceBlock: 64,
			trace: []line{r(0, 40, 2, 1), r(0, 40, 2, 1), r(500, 40, 2, 1)},
			passes: `
				0 admit 0:0 admit 1:0 first 0 first 1 tokens 2 end 40.94439 pool 158/0/40+2
				40.94439 last 0 last 1 tokens 2 end 64.501596 pool 156/44/0
				500 admit 2:39 first 2 tokens 1 end 532.029004 pool 155/4/40+1
				532.029004 last 2 tokens 1 end 547.75933 pool 154/46/0`,
			ttft: []sim.Time{40.94439, 40.94439, 32.029003999999986}, reused: []int{0, 0, 39}, duration: 547.75933,
		},
		{
			name: "E3 caching off",
			config: with(config(rules, 1, 200), func(c *Config) {
				c.PrefixCaching = false
			}), traceBlock: 64,
			trace: []line{r(0, 40, 2, 1), r(0, 40, 2, 1), r(500, 40, 2, 1)},
			passes: `
				0 admit 0:0 admit 1:0 first 0 first 1 tokens 2 end 40.94439 pool 118/0/0+82
				40.94439 last 0 last 1 tokens 2 end 64.501596 pool 200/0/0
				500 admit 2:0 first 2 tokens 1 end 532.6218309999999 pool 159/0/0+41
				532.6218309999999 last 2 tokens 1 end 548.3521569999999 pool 200/0/0`,
			reused: []int{0, 0, 0}, duration: 548.3521569999999,
		},
		{
			name:   "E4 chunks",
			config: with(config(rules, 1, 1000), chunk64), traceBlock: 64, trace: []line{r(0, 150, 2, 1, 2, 3)},
			passes: `
				0 admit 0:0 tokens 0 end 17.474885 pool 936/0/64
				17.474885 admit 0:0 tokens 0 end 34.94977 pool 872/0/128
				34.94977 admit 0:0 first 0 tokens 1 end 65.047779 pool 849/0/150+1
				65.047779 last 0 tokens 1 end 78.356391 pool 848/152/0`,
			reused: []int{0}, duration: 78.356391,
		},
		{
			name:   "E5 two prompts, one chunk budget",
			config: with(config(rules, 16, 40), chunk64), traceBlock: 32,
			trace: []line{r(0, 40, 3, 7, 8), r(0, 100, 2, 7, 9, 10, 11)},
			passes: `
				0 admit 0:0 admit 1:0 first 0 tokens 1 end 26.368091 pool 592/0/32+16
				26.368091 admit 1:0 tokens 1 end 52.937355 pool 544/0/80+16
				52.937355 admit 1:0 last 0 first 1 tokens 2 end 86.198939 pool 528/0/96+16
				86.198939 last 1 tokens 1 end 99.821343 pool 544/96/0`,
			reused: []int{0, 0}, duration: 99.821343,
		},
		{
			name:   "E6 the oldest leaf goes first",
			config: config(rules, 1, 130), traceBlock: 64, trace: lruTrace(),
			reused: []int{0, 0, 39, 0, 39, 39}, ttft: []sim.Time{37.030969, 37.030969, 36.438142}, duration: 536.438142,
		},
		{
			name:   "E6 a hit is locked before anything is evicted",
			config: config(rules, 1, 100), traceBlock: 64, trace: lruTrace(),
			reused: []int{0, 0, 39, 0, 39, 0}, duration: 540.335031,
		},
		{
			name:   "E13 a batch shares pages in the end",
			config: config(rules, 64, 16), traceBlock: 64, trace: []line{r(0, 130, 2, 1, 2, 3), r(0, 200, 2, 1, 2, 3, 4)},
			passes: `
				0 admit 0:0 admit 1:0 first 0 first 1 tokens 2 end 42.030137 pool 704/0/192+128
				42.030137 last 0 last 1 tokens 2 end 62.57546000000001 pool 832/192/0`,
			duration: 62.57546000000001,
		},
		{
			name:   "E13 a whole hit computes a page",
			config: config(rules, 64, 16), traceBlock: 64, trace: []line{r(0, 128, 1, 1, 2), r(100, 128, 1, 1, 2)},
			reused: []int{0, 64}, ttft: []sim.Time{-1, 29.56394800000001}, duration: 129.563948,
		},
		{
			name:   "E13 a whole hit, compat",
			config: config(CompatRules(), 64, 16), traceBlock: 64, trace: []line{r(0, 128, 1, 1, 2), r(100, 128, 1, 1, 2)},
			reused: []int{0, 128}, ttft: []sim.Time{-1, 28.590483000000006}, duration: 128.590483,
		},
	}
}

func defaultQueue() []example {
	rules := DefaultRules()
	lpm := func(chunk int) func(*Config) {
		return func(c *Config) { c.ChunkTokens, c.Policy = chunk, LPM }
	}
	return []example{
		{
			name:   "E9 fifo",
			config: with(config(rules, 1, 1000), chunk64), traceBlock: 64,
			trace:  []line{r(0, 64, 1, 1), r(100, 64, 1, 2), r(100, 64, 1, 1)},
			reused: []int{0, 0, 63}, duration: 152.17390699999999,
		},
		{
			name:   "E9 lpm",
			config: with(config(rules, 1, 1000), lpm(64)), traceBlock: 64,
			trace:  []line{r(0, 64, 1, 1), r(100, 64, 1, 2), r(100, 64, 1, 1)},
			reused: []int{0, 0, 63}, ttft: []sim.Time{-1, 52.173906999999986}, duration: 152.17390699999999,
		},
		{
			name:   "E9 a prompt waits for one that begins alike",
			config: with(config(rules, 1, 1000), lpm(40)), traceBlock: 64,
			trace:  []line{r(0, 40, 1, 1), r(0, 40, 1, 1), r(0, 40, 1, 2)},
			reused: []int{0, 39, 0}, duration: 74.31311400000001,
		},
		{
			name:   "E10 the reserve for running requests",
			config: config(rules, 1, 200), traceBlock: 64,
			trace: []line{r(0, 20, 2, 1), r(0, 20, 2, 2), r(5, 150, 7, 3, 4, 5)},
			ttft:  []sim.Time{32.621831, 32.621831, 94.125955}, duration: 291.296897,
		},
		{
			name: "E10 without a reserve",
			config: with(config(rules, 1, 200), func(c *Config) {
				c.Conservativeness = 0
			}), traceBlock: 64,
			trace:    []line{r(0, 20, 2, 1), r(0, 20, 2, 2), r(5, 150, 7, 3, 4, 5)},
			duration: 291.296897,
		},
	}
}

func defaultTight() []example {
	rules := DefaultRules()
	twenty := make([]line, 20)
	for i := range twenty {
		twenty[i] = r(sim.Time(1000*i), 1000, 5, uint64(2*i), uint64(2*i+1))
	}
	return []example{
		{
			name:   "E7 retraction",
			config: with(config(rules, 4, 10), clip1), traceBlock: 8,
			trace: []line{r(0, 8, 6, 1), r(0, 8, 6, 2), r(0, 8, 6, 3)},
			passes: `
				0 admit 0:0 admit 1:0 admit 2:0 first 0 first 1 first 2 tokens 3 end 45.745665 pool 4/0/24+12
				45.745665 tokens 3 end 76.21462700000001 pool 4/0/24+12
				76.21462700000001 tokens 3 end 107.983377 pool 4/0/24+12
				107.983377 tokens 3 end 140.76234 pool 4/0/24+12
				140.76234 retract 1 tokens 2 end 174.26193999999998 pool 0/8/16+16
				174.26193999999998 last 0 last 1 tokens 2 end 204.23328999999998 pool 8/32/0
				204.23328999999998 admit 2:0 tokens 1 end 240.42184999999998 pool 0/24/12+4
				240.42184999999998 last 2 tokens 1 end 260.996312 pool 4/36/0`,
			reused: []int{0, 0, 0}, duration: 260.996312,
		},
		{
			name:   "E8 no slot is freed twice",
			config: with(config(rules, 4, 5), clip1), traceBlock: 16, trace: []line{r(0, 11, 3, 1), r(10, 4, 3, 1)},
			passes: `
				0 admit 0:0 first 0 tokens 1 end 44.327639000000005 pool 8/0/8+4
				44.327639000000005 tokens 1 end 73.207239 pool 4/0/8+8
				73.207239 last 0 tokens 1 end 103.178589 pool 8/12/0
				103.178589 admit 1:0 first 1 tokens 1 end 135.253149 pool 4/8/4+4
				135.253149 tokens 1 end 152.886899 pool 4/8/4+4
				152.886899 last 1 tokens 1 end 172.513299 pool 8/12/0`,
			ttft: []sim.Time{44.327639000000005, 125.25314900000001}, reused: []int{0, 0}, duration: 172.513299,
		},
		{
			name:   "E11 what is cached never stands in the way",
			config: config(rules, 1, 100), traceBlock: 64, trace: []line{r(0, 60, 5, 1), r(100, 60, 5, 2)},
			ttft: []sim.Time{46.293542, 110.340464}, duration: 328.09384400000005,
		},
		{
			name:   "9.2 twenty prompts",
			config: config(rules, 1, 16384), traceBlock: 512, trace: twenty,
			reused: make([]int, 20), duration: 19076.840002,
		},
		{
			name:   "9.2 a request that fills the pool",
			config: config(rules, 1, 100), traceBlock: 64, trace: []line{r(0, 90, 10, 1, 2)},
			duration: 355.58885,
		},
		{
			name:   "9.2 a request that outgrows what was reserved",
			config: with(config(rules, 1, 110), clip1), traceBlock: 64, trace: []line{r(0, 50, 60, 1)},
			duration: 1858.757655,
		},
		{
			name: "E14 the request prefilled in part yields",
			config: with(config(rules, 1, 12), func(c *Config) {
				c.ClipNewTokens, c.ChunkTokens, c.Conservativeness = 0, 2, 0
			}), traceBlock: 64, trace: []line{r(0, 2, 6, 1), r(0, 7, 1, 2)},
			passes: `
				0 admit 0:0 first 0 tokens 1 end 30.558456 pool 9/0/2+1
				30.558456 admit 1:0 tokens 1 end 64.723995 pool 6/0/4+2
				64.723995 admit 1:0 tokens 1 end 102.139117 pool 3/0/6+3
				102.139117 admit 1:0 tokens 1 end 142.446323 pool 0/0/8+4
				142.446323 tokens 1 end 168.756323 pool 1/4/2+5
				168.756323 last 0 tokens 1 end 197.243406 pool 0/12/0
				197.243406 admit 1:0 tokens 0 end 213.775195 pool 4/2/6
				213.775195 admit 1:0 first 1 last 1 tokens 1 end 258.778882 pool 2/10/0`,
			reused: []int{0, 0}, duration: 258.778882,
		},
	}
}
