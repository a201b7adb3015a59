package draw

import "strconv"

// Schedule contains the calls of a planner during a replay. The planner reads the state of the cluster, changes the
// size of the pools, and reads the report at the end.
//
// The reference gets the schedule as JSON.
type Schedule struct {
	Trace        string   `json:"trace"` // path of the file
	TraceBlock   int      `json:"trace_block_size"`
	Speedup      float64  `json:"arrival_speedup_ratio"`
	Engines      []string `json:"engines"` // arguments of one pool, or of the prefill and the decode pool
	Workers      []int    `json:"workers"` // workers of each pool
	RouterMode   string   `json:"router_mode"`
	RouterConfig string   `json:"router_config"` // "" means the defaults
	Calls        []Call   `json:"calls"`
	Out          string   `json:"out"` // path of the results
}

// Call is one call of a planner.
type Call struct {
	Do      string  `json:"do"`      // advance, scale or drain
	Until   float64 `json:"until"`   // end of an advance, in ms
	Prefill int     `json:"prefill"` // for scale, in workers; ignored without a prefill pool
	Decode  int     `json:"decode"`
}

// Args returns the schedule, without its calls, as a command line of the reference.
func (p *Schedule) Args() []string {
	args := []string{
		"--trace-block-size", strconv.Itoa(p.TraceBlock), "--arrival-speedup-ratio", formatDecimal(p.Speedup), "--router-mode", p.RouterMode,
	}
	if p.RouterConfig != "" {
		args = append(args, "--router-config", p.RouterConfig)
	}
	if len(p.Engines) == 1 {
		return append(args, "--num-workers", strconv.Itoa(p.Workers[0]), "--extra-engine-args", p.Engines[0])
	}
	return append(args, "--num-prefill-workers", strconv.Itoa(p.Workers[0]), "--prefill-engine-args", p.Engines[0],
		"--num-decode-workers", strconv.Itoa(p.Workers[1]), "--decode-engine-args", p.Engines[1])
}

// atEnd is a time in ms after the end of every replay.
const atEnd = 1e12

// newScaling returns a workload with a planner.
func newScaling(seed uint64) *Workload {
	d := newDrawer(seed, 8)
	d.Plan = &Schedule{Speedup: Pick(d.Rand, 1., 1, 0.5, 4), RouterMode: "round_robin"}
	d.Tags.Add("scaling")
	d.Tags.Add("trace")
	d.Tags.Add(Pick(d.Rand, "vllm", "vllm", "sglang"))
	d.Tags.Add(Pick(d.Rand, "pool", "pool", "disagg", "disagg"))
	maxWorkers := 4
	if d.Chance(4) {
		d.Tags.Add("kv")
		d.Ties, maxWorkers = true, 2
	}
	d.Tags.Add(Pick(d.Rand, "flat", "flat", "sessions"))
	block := d.drawBlock()
	s := d.drawShape(block)
	if d.Tags.Has("kv") { // the planner sees the worker numbers, so ties are frequent
		s.requests = min(s.requests, 3)
	}
	d.Plan.TraceBlock = s.tokens
	draw := d.drawFlat
	if d.Tags.Has("sessions") {
		draw = d.drawSessions
	}
	largest := draw(s)
	if d.Tags.Has("kv") {
		d.Plan.RouterMode = "kv_router"
		if d.drawRouter(); len(d.Args) > 0 {
			d.Plan.RouterConfig, d.Args = d.Args[1], nil
		}
	}
	roles := []string{""}
	if d.Tags.Has("disagg") {
		roles = []string{"prefill", "decode"}
	}
	for _, role := range roles {
		d.Plan.Engines = append(d.Plan.Engines, d.drawEngine(block, largest, role))
		d.Plan.Workers = append(d.Plan.Workers, 1+d.IntN(maxWorkers))
	}
	d.drawCalls(max(s.gap*float64(s.requests), 300), maxWorkers)
	return &d.Workload
}

// drawCalls draws the calls of the planner, mostly during the arrivals.
func (d *Drawer) drawCalls(span float64, maxWorkers int) {
	var calls []Call
	until := 0.0
	for range 1 + d.IntN(Pick(d.Rand, 4, 12, 30)) {
		switch d.IntN(4) {
		case 0, 1:
			if !d.Chance(6) {
				until += d.Float64() * span / 5
			}
			calls = append(calls, Call{Do: "advance", Until: until})
		case 2:
			calls = append(calls, Call{Do: "scale", Prefill: 1 + d.IntN(maxWorkers), Decode: 1 + d.IntN(maxWorkers)})
		case 3:
			calls = append(calls, Call{Do: "drain"})
		}
	}
	if !d.Chance(4) {
		calls = append(calls, Call{Do: "advance", Until: atEnd}, Call{Do: "drain"})
	}
	d.Plan.Calls = calls
}
