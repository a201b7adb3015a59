package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/replay-llm/replay/scheduler"
)

// literal implements the planner of docs/rules/router.md "Dynamo's planner" literally. The literal computation of
// each tick uses all ticks so far.
type literal struct {
	c     *Config
	role  scheduler.Role
	e     Engine
	ticks []seen
}

// seen is the inputs of a tick.
type seen struct {
	seconds float64
	view    View
	traffic Traffic
}

// answer returns the decision of the latest tick.
func (l *literal) answer(now seen) (n int, ok bool) {
	l.ticks = append(l.ticks, now)
	least := l.c.MinEndpoint
	if l.role == scheduler.Prefill && l.c.PrefillMin != nil {
		least = *l.c.PrefillMin
	}
	if l.role != scheduler.Prefill && l.c.DecodeMin != nil {
		least = *l.c.DecodeMin
	}
	if now.seconds == 0 {
		return 0, false
	}
	sla := l.c.Target == SLA
	withTraffic, withLoad := sla && l.c.Throughput, !sla || l.c.Load
	loadAt, trafficAt, floor, cached := 0.0, 0.0, 1, 0.0
	var taken Traffic
	var f [3]float64  // latest requests, prompt tokens and answer tokens
	var begun [3]bool // whether a value above 0 has occurred
	var lengths [2]float64
	any := false
	x := &estimator{l: l, stores: map[string]*passes{}}
	for _, s := range l.ticks[1:] {
		n, ok = 0, false
		loadDue := s.seconds-loadAt >= float64(l.c.LoadInterval)
		if loadDue {
			if loadAt = s.seconds; sla {
				x.observe(s.view.Passes)
			}
		}
		take := func() (i [4]float64) { // seconds, requests, prompt and answer tokens
			d := s.traffic
			i[0], i[1] = s.seconds-trafficAt, float64(d.Requests-taken.Requests)
			if k := d.Finished - taken.Finished; k > 0 {
				i[2], i[3] = float64(d.Input-taken.Input)/float64(k), float64(d.Output-taken.Output)/float64(k)
			}
			cached = 0
			if k := d.Placed - taken.Placed; k > 0 {
				cached = (d.Reuse - taken.Reuse) / float64(k)
			}
			trafficAt, taken = s.seconds, d
			return i
		}
		if sla && !withTraffic && loadDue {
			take()
		}
		ready := s.view.Ready
		if withTraffic && s.seconds-trafficAt >= float64(l.c.ThroughputInterval) {
			i := take()
			if i[1] > 0 {
				any, lengths = true, [2]float64{i[2], i[3]}
			} else if any {
				i[2], i[3] = lengths[0], lengths[1]
			}
			for k := range f {
				if begun[k] = begun[k] || i[k+1] != 0; begun[k] {
					f[k] = i[k+1]
				}
			}
			want, known := ready, false
			if rate := x.bestRate(f[1], f[2], cached); rate > 0 && (l.role != scheduler.Aggregated || l.e.MaxBatchedTokens > 0) {
				want, known = max(int(math.Ceil(f[0]/i[0]/rate)), least), true
			}
			want = max(min(max(want, ready-l.c.MaxStep, 0), ready+l.c.MaxStep), least)
			want = l.guard(ready, want, least, -1)
			if withLoad {
				floor = want
			} else {
				want = l.guard(ready, want, least, l.c.MinGPUBudget)
				n, ok = want, known || want != ready
			}
		}
		if loadDue && withLoad {
			n, ok = l.load(&s, x, least, floor, cached)
		}
		n, ok = l.settle(&s, n, ok, least)
	}
	return n, ok
}

// settle derives the decision from the number n of scaling by load (rule 14.4). ok is false without such a number.
func (l *literal) settle(s *seen, n int, ok bool, least int) (int, bool) {
	ready := s.view.Ready
	if !ok {
		n = ready
	}
	outside := false
	if ready == s.view.Expected {
		n = max(n, least*btoi(ready < least))
		outside = !l.holds(ready)
	}
	if n != ready || outside {
		n = l.clamp(max(n, least), least, l.c.MinGPUBudget)
	}
	return n, n != ready
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (l *literal) holds(n int) bool { return l.clampNeeds(n, l.c.MinGPUBudget) == 0 }

// clampNeeds returns 1 above the budget, -1 below the budget and 0 within the budget.
func (l *literal) clampNeeds(n, low int) int {
	g, high := l.e.GPUs, l.c.MaxGPUBudget
	if high >= 0 && n*g > high {
		return 1
	}
	if high >= 0 && low >= 0 && n*g < low-g || high < 0 && low >= 0 && n*g < low {
		return -1
	}
	return 0
}

func (l *literal) clamp(n, least, low int) int {
	switch l.clampNeeds(n, low) {
	case 1:
		return max(least, l.c.MaxGPUBudget/l.e.GPUs)
	case -1:
		return max(least, int(math.Ceil(float64(low)/float64(l.e.GPUs))))
	}
	return n
}

func (l *literal) guard(ready, n, least, low int) int {
	g := ready * l.e.GPUs
	switch {
	case l.clampNeeds(ready, low) != 0:
		return l.clamp(ready, least, low)
	case low >= 0 && g <= low && n < ready, l.c.MaxGPUBudget >= 0 && g >= l.c.MaxGPUBudget && n > ready:
		return ready
	}
	if to := l.clamp(n, least, low); to >= min(n, ready) && to <= max(n, ready) {
		return to
	}
	return ready
}

// load applies "Load of the planner" of docs/rules/router.md.
func (l *literal) load(s *seen, x *estimator, least, floor int, cached float64) (int, bool) {
	ready, passes := s.view.Ready, s.view.Passes
	if ready != s.view.Expected || len(passes) != ready || ready == 0 {
		return 0, false
	}
	var n int
	var ok bool
	if l.c.Target == SLA {
		if !x.isReady() {
			ok = false
		} else {
			n, ok = x.objectives(ready, passes, least, cached)
		}
		if l.role == scheduler.Aggregated {
			if !x.isReady() {
				return 0, false
			}
			if !ok {
				n, ok = ready, true
			}
		}
	} else if n, ok = l.shares(ready, passes, least); !ok && l.role == scheduler.Aggregated {
		return 0, false
	}
	if !ok {
		n = ready
	}
	n = max(n, least)
	if l.c.Target == SLA && l.c.Throughput {
		n = max(n, floor)
	}
	return l.guard(ready, n, least, l.c.MinGPUBudget), true
}

func (l *literal) shares(ready int, passes []scheduler.Snapshot, least int) (int, bool) {
	most := math.Inf(-1)
	for _, p := range passes {
		v := float64(p.Decode.Sum+p.QueuedDecode.Sum) / float64(l.e.KVTokens)
		if l.role == scheduler.Aggregated {
			v = float64(p.Decode.Sum+p.QueuedDecode.Sum+p.QueuedPrefill.Sum) / float64(l.e.KVTokens)
		}
		if l.role == scheduler.Prefill {
			if v = float64(p.QueuedPrefill.Sum); l.c.Target != Load {
				v /= float64(l.e.ContextLength)
			}
		}
		most = max(most, v)
	}
	var high, low bool
	var up float64
	switch prefill := l.role == scheduler.Prefill; l.c.Target {
	case Throughput:
		if up = 1; prefill {
			high, low = most >= 1, most < 0.1
		} else {
			high, low = most > 1, most < 0.6
		}
	case Latency:
		if prefill {
			up, high, low = 0.1, most >= 0.1, most == 0
		} else {
			up, high, low = 0.4, most > 0.4, most < 0.1
		}
	default:
		if prefill {
			up, high, low = float64(*l.c.QueueUp), most >= float64(*l.c.QueueUp), most <= float64(*l.c.QueueDown)
		} else {
			up, high, low = *l.c.KVUp/100, most >= *l.c.KVUp/100, most <= *l.c.KVDown/100
		}
	}
	if high {
		return ready + 1, true
	}
	if ready > 1 && low {
		n := max(ready-1, least)
		if n > 0 && n < ready && most*float64(ready)/float64(n) >= up {
			return ready, true
		}
		return n, true
	}
	return 0, false
}

// estimator implements "Estimates" of docs/rules/router.md.
type estimator struct {
	l      *literal
	stores map[string]*passes
	first  []int // workers
	means  [4][]float64
}

// passes is a store: the kept passes, in order of arrival.
type passes struct {
	all       []kept
	low, high [2]float64
	cells     [][2]int // in order of creation
}

type kept struct {
	x  [2]float64
	ms float64
}

func (x *estimator) observe(all []scheduler.Snapshot) {
	at := map[int]scheduler.Snapshot{}
	for _, p := range all {
		at[p.Worker] = p
	}
	var still []int
	for _, w := range x.first {
		if _, ok := at[w]; ok {
			still = append(still, w)
		}
	}
	for _, p := range all {
		found := false
		for _, w := range still {
			found = found || w == p.Worker
		}
		if !found {
			still = append(still, p.Worker)
		}
	}
	x.first = still
	note := func(k int, v float64) {
		if len(x.means[k]) > 0 || v > 0 {
			x.means[k] = append(x.means[k], v)
		}
	}
	for _, w := range still {
		p := at[w]
		v := 0.0
		if p.Prefill.Requests > 0 {
			v = float64(p.Prefill.Sum) / float64(p.Prefill.Requests)
		}
		note(0, v)
		if p.Decode.Requests > 0 {
			note(1, float64(p.Decode.Sum)/float64(p.Decode.Requests))
		}
	}
	var names []string
	byName := map[string]scheduler.Snapshot{}
	for w, p := range at {
		names = append(names, fmt.Sprint(w))
		byName[fmt.Sprint(w)] = p
	}
	sort.Strings(names)
	for _, name := range names {
		p := byName[name]
		if x.l.role == scheduler.Decode && p.Prefill.Sum > 0 || x.l.role == scheduler.Prefill && p.Decode.Requests > 0 {
			break
		}
		pass := [5]float64{float64(p.Prefill.Requests), float64(p.Prefill.Sum), float64(p.PrefillCached), float64(p.Decode.Requests), float64(p.Decode.Sum)}
		if key := x.key(pass); key != "" && p.Seconds > 0 {
			x.add(key, kept{x.features(pass), p.Seconds * 1000})
		}
		note(2, pass[1])
		note(3, pass[0])
	}
}

func (x *estimator) mean(k int) float64 {
	v := x.means[k]
	if len(v) == 0 {
		return 0
	}
	// The sum is updated: removed values are subtracted.
	sum := 0.0
	for i, y := range v {
		if sum += y; i >= x.l.c.Samples {
			sum -= v[i-x.l.c.Samples]
		}
	}
	return sum / float64(min(len(v), x.l.c.Samples))
}

func (x *estimator) key(pass [5]float64) string {
	prefills, decodes := pass[1] > 0 && x.l.role != scheduler.Decode, pass[3] > 0 && x.l.role != scheduler.Prefill
	switch {
	case prefills && decodes:
		return "both"
	case prefills:
		return "prefill"
	case decodes:
		return "decode"
	}
	return ""
}

func (x *estimator) features(pass [5]float64) [2]float64 {
	n, p, h, b, k := pass[0], pass[1], pass[2], pass[3], pass[4]
	var a, t float64
	if x.l.role != scheduler.Decode && p > 0 {
		a, t = h+h*p/n+p*p/(2*n)+p/2, p
	}
	if x.l.role != scheduler.Prefill {
		a, t = a+k, t+b
	}
	return [2]float64{a, t}
}

func (x *estimator) cell(s *passes, k kept) (c [2]int) {
	side := int(math.Round(math.Sqrt(float64(x.l.c.Buckets))))
	for j := range c {
		if s.high[j] > s.low[j] {
			c[j] = min(int((math.Log1p(k.x[j])-s.low[j])/(s.high[j]-s.low[j])*float64(side)), side-1)
		}
	}
	return c
}

func (x *estimator) add(key string, k kept) {
	s := x.stores[key]
	if s == nil {
		s = &passes{low: [2]float64{math.Inf(1), math.Inf(1)}, high: [2]float64{math.Inf(-1), math.Inf(-1)}}
		x.stores[key] = s
	}
	old := *s
	for j := range s.low {
		s.low[j], s.high[j] = min(s.low[j], math.Log1p(k.x[j])), max(s.high[j], math.Log1p(k.x[j]))
	}
	makeCell := func(c [2]int) {
		for _, have := range s.cells {
			if have == c {
				return
			}
		}
		s.cells = append(s.cells, c)
	}
	if old.low != s.low || old.high != s.high { // all cells are rebuilt, from the passes in the order of the old cells
		byOld := make([]kept, 0, len(old.all))
		for _, c := range old.cells {
			for _, y := range old.all {
				if x.cell(&old, y) == c {
					byOld = append(byOld, y)
				}
			}
		}
		s.all, s.cells = byOld, nil
		for _, y := range s.all {
			makeCell(x.cell(s, y))
		}
	}
	s.all = append(s.all, k)
	makeCell(x.cell(s, k))
	if len(s.all) <= x.l.c.Samples {
		return
	}
	count := map[[2]int]int{}
	for _, y := range s.all {
		count[x.cell(s, y)]++
	}
	full := s.cells[0]
	for _, c := range s.cells {
		if count[c] > count[full] {
			full = c
		}
	}
	for i, y := range s.all {
		if x.cell(s, y) == full {
			s.all = append(s.all[:i:i], s.all[i+1:]...)
			break
		}
	}
}

// line fits the plane by solving the normal equations of raw features for each set of slopes.
func (x *estimator) line(key string) (at func([2]float64) float64, ok bool) {
	s := x.stores[key]
	if s == nil || len(s.all) < x.l.c.MinObservations {
		return nil, false
	}
	n := float64(len(s.all))
	var m [3]float64
	for _, k := range s.all {
		m[0], m[1], m[2] = m[0]+k.x[0]/n, m[1]+k.x[1]/n, m[2]+k.ms/n
	}
	var c [3][3]float64
	for _, k := range s.all {
		d := [3]float64{k.x[0] - m[0], k.x[1] - m[1], k.ms - m[2]}
		for i := range d {
			for j := range d {
				c[i][j] += d[i] * d[j]
			}
		}
	}
	varies := func(j int) bool { return math.Sqrt(c[j][j]/n) > 1e-12*max(1, m[j]) }
	if !varies(0) && !varies(1) {
		return nil, false
	}
	slopes := [][2]float64{{}}
	for j := range 2 {
		if varies(j) {
			var b [2]float64
			b[j] = c[j][2] / c[j][j]
			slopes = append(slopes, b)
		}
	}
	if d := c[0][0]*c[1][1] - c[0][1]*c[1][0]; varies(0) && varies(1) {
		if d/(c[0][0]*c[1][1]) < 1e-8 { // nearly collinear: the ridge of the product decides
			return x.onOneLine(s)
		}
		slopes = append(slopes, [2]float64{(c[0][2]*c[1][1] - c[1][2]*c[0][1]) / d, (c[1][2]*c[0][0] - c[0][2]*c[1][0]) / d})
	}
	least, best := math.Inf(1), [2]float64{}
	for _, b := range slopes {
		sum := 0.0
		for _, k := range s.all {
			e := k.ms - m[2] - b[0]*(k.x[0]-m[0]) - b[1]*(k.x[1]-m[1])
			sum += e * e
		}
		if b[0] >= 0 && b[1] >= 0 && sum < least {
			least, best = sum, b
		}
	}
	return func(v [2]float64) float64 { return m[2] + best[0]*(v[0]-m[0]) + best[1]*(v[1]-m[1]) }, best[0] > 0 || best[1] > 0 || n <= float64(len(slopes)-1)
}

// onOneLine fits the plane of nearly collinear passes as the planner does.
func (x *estimator) onOneLine(s *passes) (at func([2]float64) float64, ok bool) {
	st := newStore(x.l.c)
	for _, k := range s.all {
		st.cells[[2]int{}] = append(st.cells[[2]int{}], sample{k.x, k.ms})
	}
	st.order, st.n = [][2]int{{}}, len(s.all)
	ok = st.solve()
	return st.fit.value, ok
}

func (x *estimator) isReady() bool {
	for _, key := range []string{"prefill", "decode", "both"} {
		if _, ok := x.line(key); ok {
			return true
		}
	}
	return false
}

// pass returns the time of a pass, in ms; NaN if it cannot be estimated.
func (x *estimator) pass(n, p, b, k float64) float64 {
	v := [5]float64{n, p, 0, b, k}
	key := x.key(v)
	if key == "" {
		return 0
	}
	f, ok := x.line(key)
	if !ok {
		return math.NaN()
	}
	return max(f(x.features(v)), 1e-6)
}

func (x *estimator) limit() float64 {
	if n := x.l.e.MaxBatchedTokens; n > 0 {
		return float64(n)
	}
	return 8192
}

func (x *estimator) chunks(tokens, n, b, k float64) float64 {
	full, rest := math.Floor(tokens/x.limit()), math.Mod(tokens, x.limit())
	sum := 0.0
	if full > 0 {
		sum += x.pass(max(n, 1), x.limit(), b, k) / 1000 * full
	}
	if rest > 0 {
		sum += x.pass(max(n, 1), rest, b, k) / 1000
	}
	return sum * 1000
}

func (x *estimator) ttft(p scheduler.Snapshot, cached, q, d float64, preempted bool) float64 {
	tokens, n := float64(p.QueuedPrefill.Sum)*q, float64(p.QueuedPrefill.Requests)*q
	if mean := x.mean(0); mean > 0 {
		tokens, n = tokens+mean, n+1
	}
	tokens *= 1 - min(max(cached, 0), 0.95)
	var b, k float64
	if x.l.role == scheduler.Aggregated {
		b, k = float64(p.Decode.Requests), float64(p.Decode.Sum)
		if preempted {
			b, k = b+float64(p.QueuedDecode.Requests), k+float64(p.QueuedDecode.Sum)
		}
	}
	return x.chunks(math.Ceil(tokens), math.Ceil(n), math.Ceil(b*d), math.Ceil(k*d))
}

func (x *estimator) itl(p scheduler.Snapshot, d float64, prompts bool) float64 {
	b, k := float64(p.Decode.Requests+p.QueuedDecode.Requests), float64(p.Decode.Sum+p.QueuedDecode.Sum)
	if prompts {
		b, k = b+float64(p.QueuedPrefill.Requests), k+float64(p.QueuedPrefill.Sum)
	}
	b, k = b*d, k*d
	if mean := x.mean(1); mean > 0 {
		b, k = b+1, k+mean
	}
	var n, t float64
	if x.l.role == scheduler.Aggregated {
		n, t = math.Ceil(x.mean(3)), math.Ceil(x.mean(2))
	}
	return x.pass(n, t, math.Ceil(b), math.Ceil(k))
}

// objectives applies "Objectives" of docs/rules/router.md to a worker with ready estimates.
func (x *estimator) objectives(ready int, all []scheduler.Snapshot, least int, cached float64) (int, bool) {
	c, e := x.l.c, x.l.e
	r := 1.0
	if ready > 1 {
		r = float64(ready) / float64(ready-1)
	}
	s := float64(c.Sensitivity) / 100
	both := x.l.role == scheduler.Aggregated
	judge := func(limit float64, estimate func(scheduler.Snapshot) float64, allows func(scheduler.Snapshot) (yes, forbids bool)) (n int, ok, forbidden bool) {
		above, known, yes := true, 0, ready > 1
		for _, p := range all {
			if t := estimate(p); !math.IsNaN(t) {
				known++
				above = above && t > limit
			}
			if yes {
				var forbids bool
				if yes, forbids = allows(p); forbids {
					forbidden = true
				}
			}
		}
		switch {
		case known == 0:
			return 0, false, forbidden
		case above:
			return ready + 1, true, false
		case yes:
			return max(ready-1, least), true, false
		}
		return 0, false, forbidden
	}
	first := func() (int, bool, bool) {
		if e.MaxBatchedTokens == 0 {
			return 0, false, false
		}
		return judge(c.TTFT, func(p scheduler.Snapshot) float64 { return x.ttft(p, cached, 1, 1, false) }, func(p scheduler.Snapshot) (bool, bool) {
			d := 1.0
			if both {
				d = r
			}
			own, after := x.ttft(p, cached, 0, d, true), x.ttft(p, cached, r, d, true)
			room := (c.TTFT - own) * s
			if math.IsNaN(own) || math.IsNaN(after) && (both || room > 0) {
				return false, false
			}
			forbids := room <= 0 || after-own >= room
			return !forbids, forbids
		})
	}
	next := func() (int, bool, bool) {
		return judge(c.ITL, func(p scheduler.Snapshot) float64 { return x.itl(p, 1, false) }, func(p scheduler.Snapshot) (bool, bool) {
			tokens := p.Decode.Sum + p.QueuedDecode.Sum
			if both {
				tokens += p.QueuedPrefill.Sum
			}
			if e.KVTokens > 0 && int(float64(tokens)*r) >= e.KVTokens {
				return false, true
			}
			t := x.itl(p, r, both)
			if math.IsNaN(t) {
				return false, false
			}
			forbids := t >= c.ITL*s
			return !forbids, forbids
		})
	}
	switch x.l.role {
	case scheduler.Prefill:
		n, ok, _ := first()
		return n, ok
	case scheduler.Decode:
		n, ok, _ := next()
		return n, ok
	}
	a, aOK, aNo := first()
	b, bOK, bNo := next()
	if !aOK && aNo {
		a, aOK = ready, true
	}
	if !bOK && bNo {
		b, bOK = ready, true
	}
	switch {
	case aOK && a > ready || bOK && b > ready:
		return max(a*btoi(aOK), b*btoi(bOK)), true
	case !aOK && bOK && b < ready:
		return b, true
	case aOK && bOK && a < ready && b < ready:
		return max(a, b), true
	}
	return ready, true
}

// bestRate applies "Traffic" of docs/rules/router.md from the batch sizes on. The result is 0 if a pass cannot be
// estimated.
func (x *estimator) bestRate(input, output, cached float64) float64 {
	role, e, c := x.l.role, x.l.e, x.l.c
	if input <= 0 || role != scheduler.Prefill && output <= 0 {
		return 0
	}
	or := func(n, other int) float64 {
		if n > 0 {
			return float64(n)
		}
		return float64(other)
	}
	seqs, kv := or(e.MaxSeqs, 512), or(e.KVTokens, 2_000_000)
	i, o := math.Ceil(input), max(math.Ceil(output), 1)
	fresh := max(math.Ceil(i*(1-min(max(cached, 0), 0.95))), 1)
	ctx := i + math.Floor(o/2)
	most := min(seqs, math.Floor(kv/ctx))
	switch {
	case role == scheduler.Prefill && fresh > x.limit():
		most = 1
	case role == scheduler.Prefill:
		most = min(seqs, math.Floor(x.limit()/fresh))
	case role == scheduler.Aggregated:
		most = min(most, x.limit()-1)
	}
	var sizes []float64
	for k := range 128 {
		if most > 128 {
			sizes = append(sizes, 1+math.Floor(float64(k)*(most-1)/127))
		} else if float64(k) < most {
			sizes = append(sizes, float64(k+1))
		}
	}
	best, eligible := 0.0, false
	for _, n := range sizes {
		var rate float64
		var within bool
		switch role {
		case scheduler.Prefill:
			t := x.chunks(fresh*n, 1, 0, 0) / 1000
			rate, within = n/t, t <= c.TTFT/1000
		case scheduler.Decode:
			t := x.pass(0, 0, n, n*ctx) / 1000
			rate, within = n/(o*t), t <= c.ITL/1000
		default:
			p := math.Ceil(n * fresh / o)
			if p > x.limit()-n {
				continue
			}
			t := x.pass(1, p, n, n*ctx) / 1000
			rate, within = n/(o*t), t <= c.ITL/1000 && x.chunks(p+fresh, 1, n, n*ctx)/1000 <= c.TTFT/1000
			if math.IsNaN(x.chunks(p+fresh, 1, n, n*ctx)) {
				rate = math.NaN()
			}
		}
		if math.IsNaN(rate) {
			return 0
		}
		if best == 0 || within && !eligible || within == eligible && rate > best {
			best, eligible = rate, within
		}
	}
	return best
}

// drawPlanner draws a planner of a pool.
func drawPlanner(r *rand.Rand) (Config, scheduler.Role, Engine) {
	c := Default()
	c.Target = Targets()[r.IntN(4)]
	if r.IntN(2) == 0 {
		c.Target = SLA
	}
	c.Throughput, c.Load = r.IntN(3) > 0, r.IntN(2) == 0
	if !c.Throughput {
		c.Load = true
	}
	c.LoadInterval, c.ThroughputInterval = 5*(1+r.IntN(2)), 20*(1+r.IntN(3))
	c.MaxStep = 1 + r.IntN(8)
	c.MinEndpoint = 1 + r.IntN(2)
	c.MaxGPUBudget, c.MinGPUBudget = []int{-1, 8, 16, 40}[r.IntN(4)], []int{-1, -1, 2, 6}[r.IntN(4)]
	c.TTFT, c.ITL = []float64{50, 200, 1000}[r.IntN(3)], []float64{6, 15, 50}[r.IntN(3)]
	c.Samples, c.Buckets, c.MinObservations = []int{8, 20, 64}[r.IntN(3)], []int{1, 4, 16}[r.IntN(3)], 2+r.IntN(5)
	c.Sensitivity = []int{0, 50, 80, 100}[r.IntN(4)]
	up, down, kvUp, kvDown := 4000, 500, 70.0, 20.0
	c.QueueUp, c.QueueDown, c.KVUp, c.KVDown = &up, &down, &kvUp, &kvDown
	e := Engine{GPUs: 1 + r.IntN(2), MaxBatchedTokens: []int{0, 512, 2048, 8192}[r.IntN(4)], MaxSeqs: []int{0, 16, 256}[r.IntN(3)], ContextLength: 8192, KVTokens: []int{20_000, 100_000}[r.IntN(2)]}
	return c, scheduler.Role(r.IntN(3)), e
}

// drawPass draws the latest pass of a worker.
func drawPass(r *rand.Rand, worker int, role scheduler.Role, load float64) scheduler.Snapshot {
	s := scheduler.Snapshot{Worker: worker}
	if r.IntN(8) == 0 {
		return s // the worker has no requests
	}
	add := func(g *scheduler.Group, most, length int) {
		for range r.IntN(1 + int(load*float64(most))) {
			g.Add(1+r.IntN(length), 0)
		}
	}
	if role != scheduler.Decode && r.IntN(2) == 0 || r.IntN(20) == 0 {
		add(&s.Prefill, 4, 2000)
		s.PrefillCached = r.IntN(3000) * min(s.Prefill.Requests, 1)
	}
	if role != scheduler.Prefill {
		add(&s.Decode, 40, 4000)
		add(&s.QueuedDecode, 2, 4000)
	}
	if role != scheduler.Decode {
		add(&s.QueuedPrefill, 6, 4000)
	}
	s.Seconds = 0.004 + 1e-5*float64(s.Prefill.Sum) + 1e-4*float64(s.Decode.Requests) + 1e-7*float64(s.Decode.Sum) + 1e-4*r.Float64()
	return s
}

// TestPlannerIsLiteral compares the planner with its literal rules on 500 random pools.
func TestPlannerIsLiteral(t *testing.T) {
	acts := map[Target]int{}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 6))
		c, role, e := drawPlanner(r)
		if err := c.Check(5); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		p, err := New(&c, role, e)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		twin := &literal{c: &c, role: role, e: e}
		s := seen{view: View{Ready: 1 + r.IntN(4)}}
		s.view.Expected = s.view.Ready
		load := r.Float64()
		for tick := range 24 {
			s.seconds = 5 * float64(tick)
			load = min(max(load+0.4*(r.Float64()-0.5), 0), 1)
			s.view.Passes = nil
			for w := range s.view.Ready {
				if r.IntN(40) > 0 { // if not, the worker has not run a pass
					s.view.Passes = append(s.view.Passes, drawPass(r, w+8, role, load))
				}
			}
			n := r.IntN(1 + int(100*load))
			s.traffic.Requests += n
			if r.IntN(5) > 0 {
				s.traffic.Finished += n
				s.traffic.Input += n * (1 + r.IntN(3000))
				s.traffic.Output += n * (1 + r.IntN(300))
			}
			s.traffic.Placed += n
			s.traffic.Reuse += float64(n) * r.Float64()
			got, ok := p.Tick(s.seconds, &s.view, s.traffic)
			want, wanted := twin.answer(s)
			if ok != wanted || ok && got != want {
				t.Fatalf("seed %d, tick %d: %d, %v (%s), the rules say %d, %v (%s %+v %+v)", seed, tick, got, ok, p.Why(), want, wanted, role, c, e)
			}
			if ok {
				acts[c.Target]++
				s.view.Expected = got
			}
			if r.IntN(2) == 0 || s.view.Expected < s.view.Ready {
				s.view.Ready = s.view.Expected
			}
		}
	}
	for _, target := range Targets() {
		if acts[target] < 150 {
			t.Errorf("target %s: %d acts, must be at least 150", target, acts[target])
		}
	}
}
