package diff

import (
	"cmp"
	"fmt"
	"math"
	"sort"

	"github.com/replay-llm/replay/report/requests"
)

// Requests holds the differences of the requests of two runs. Requests are matched by session and turn.
type Requests struct {
	Joined  int      `json:"joined"`
	OnlyA   int      `json:"only_a"`
	OnlyB   int      `json:"only_b"`
	Moved   int      `json:"moved"` // joined ones to which something else happened
	Parting *Parting `json:"first_difference"`
	Most    []Moved  `json:"moved_most"` // by end-to-end latency, largest first
	Paired  *Paired  `json:"paired"`     // nil if no request differs
}

func (r *Requests) areSame() bool { return r.Moved == 0 && r.OnlyA == 0 && r.OnlyB == 0 }

// Parting is the earliest time at which the runs differ.
type Parting struct {
	AtMS    float64 `json:"at_ms"`
	Request Name    `json:"request"`
	What    string  `json:"what"` // as in "admission"
	A       string  `json:"a"`
	B       string  `json:"b"`
}

// Name returns a text that identifies the request.
type Name struct {
	ID      int    `json:"id"` // in A, or in B when it is not there
	Session string `json:"session"`
	Turn    int    `json:"turn"`
	Line    int    `json:"line,omitempty"`
}

func (n Name) String() string {
	text := fmt.Sprintf("request %d (%s", n.ID, n.Session)
	if n.Turn > 0 {
		text += fmt.Sprintf(" turn %d", n.Turn)
	}
	if n.Line > 0 {
		text += fmt.Sprintf(", line %d", n.Line)
	}
	return text + ")"
}

func nameOf(r *requests.Row) Name {
	return Name{ID: r.ID, Session: r.Session, Turn: r.Turn, Line: max(int(r.Line), 0)}
}

// Moved is a request with different events in the two runs. Missing times are nil.
type Moved struct {
	Request Name     `json:"request"`
	E2EA    *float64 `json:"e2e_ms_a"`
	E2EB    *float64 `json:"e2e_ms_b"`
	TTFTA   *float64 `json:"ttft_ms_a"`
	TTFTB   *float64 `json:"ttft_ms_b"`
	WorkerA int      `json:"worker_a"`
	WorkerB int      `json:"worker_b"`

	change float64
}

type key struct {
	session string
	turn    int
}

// PairRows returns the confidence intervals of the latency differences of b and a. PairRows returns nil if the events
// of all common requests are equal.
func PairRows(a, b []requests.Row) *Paired { return compareRequests(a, b, 0).Paired }

// pairAll returns the statistics of all common requests, without intervals.
func pairAll(a, b []requests.Row) *Paired {
	p := &Paired{}
	pairs := joinRows(a, b)
	whole := wholeOf(len(pairs))
	for _, t := range listPairedTimes() {
		s := newPairSeries(t, pairs)
		if x, y, ok := s.means(whole.spans); ok {
			p.Metrics = append(p.Metrics, s.describe("mean", [2]float64{x, y}, nil, 0))
		}
		if x, y, ok := s.tails(whole); ok {
			p.Metrics = append(p.Metrics, s.describe("p99", [2]float64{x, y}, nil, 0))
		}
	}
	return p
}

// joinRows returns the common requests, in the order of a.
func joinRows(a, b []requests.Row) []pair {
	var pairs []pair
	inB := make(map[key]int32, len(b))
	for i := range b {
		inB[key{b[i].Session, b[i].Turn}] = int32(i)
	}
	for i := range a {
		if j, ok := inB[key{a[i].Session, a[i].Turn}]; ok {
			pairs = append(pairs, pair{&a[i], &b[j]})
		}
	}
	return pairs
}

func compareRequests(a, b []requests.Row, top int) *Requests {
	d := &Requests{Most: []Moved{}}
	pairs := make([]pair, 0, min(len(a), len(b)))
	inB := make(map[key]int32, len(b))
	for i := range b {
		inB[key{b[i].Session, b[i].Turn}] = int32(i)
	}
	for i := range a {
		k := key{a[i].Session, a[i].Turn}
		j, ok := inB[k]
		if !ok {
			d.OnlyA++
			d.noteFirstDifference(float64(a[i].Arrival), Parting{Request: nameOf(&a[i]), What: "arrival", A: "arrives", B: "is not there"})
			continue
		}
		delete(inB, k)
		d.Joined++
		pairs = append(pairs, pair{&a[i], &b[j]})
		d.compareRows(&a[i], &b[j])
	}
	if d.Moved > 0 {
		d.Paired = comparePairs(pairs)
	}
	d.OnlyB = len(inB)
	for i := range b { // in the order of b, as a map has no order
		if j, ok := inB[key{b[i].Session, b[i].Turn}]; ok && int(j) == i {
			d.noteFirstDifference(float64(b[i].Arrival), Parting{Request: nameOf(&b[i]), What: "arrival", A: "is not there", B: "arrives"})
		}
	}
	sort.SliceStable(d.Most, func(i, j int) bool { return cmp.Compare(d.Most[j].change, d.Most[i].change) < 0 })
	d.Most = d.Most[:min(len(d.Most), top)]
	return d
}

// noteFirstDifference stores a difference if it is the earliest so far.
func (d *Requests) noteFirstDifference(at float64, p Parting) {
	if d.Parting == nil || at < d.Parting.AtMS {
		p.AtMS = at
		d.Parting = &p
	}
}

// compareRows finds the first different event of a request.
func (d *Requests) compareRows(a, b *requests.Row) {
	if haveSameEvents(a, b) {
		return
	}
	for _, s := range listSteps() {
		x, y := s.value(a), s.value(b)
		if x == y {
			continue
		}
		d.Moved++
		d.noteFirstDifference(earlierTime(s.at(a), s.at(b)), Parting{Request: nameOf(a), What: s.what, A: x, B: y})
		d.Most = append(d.Most, movedText(a, b))
		return
	}
}

// haveSameEvents reports whether both rows have the same events, without formatting them.
func haveSameEvents(a, b *requests.Row) bool {
	same := func(x, y requests.MS) bool { return x == y || !x.Known() && !y.Known() }
	return same(a.Arrival, b.Arrival) && same(a.Admit, b.Admit) && same(a.First, b.First) &&
		same(a.Second, b.Second) && same(a.Last, b.Last) &&
		a.Worker == b.Worker && a.PrefillWorker == b.PrefillWorker &&
		a.Input == b.Input && a.Output == b.Output && a.Tokens == b.Tokens && a.Reused == b.Reused
}

func movedText(a, b *requests.Row) Moved {
	m := Moved{
		Request: nameOf(a), WorkerA: int(a.Worker), WorkerB: int(b.Worker),
		E2EA: knownText(a.E2E), E2EB: knownText(b.E2E), TTFTA: knownText(a.TTFT), TTFTB: knownText(b.TTFT),
	}
	m.change = math.Inf(1) // the request ends in only one run
	switch {
	case a.E2E.Known() && b.E2E.Known():
		m.change = math.Abs(float64(b.E2E - a.E2E))
	case !a.E2E.Known() && !b.E2E.Known():
		m.change = 0
	}
	return m
}

func knownText(t requests.MS) *float64 {
	if !t.Known() {
		return nil
	}
	v := float64(t)
	return &v
}

// step is an event of a request: its time, and its text.
type step struct {
	what  string
	at    func(*requests.Row) requests.MS
	value func(*requests.Row) string
}

// listSteps returns the events of a request, in order.
func listSteps() []step {
	instant := func(what string, at func(*requests.Row) requests.MS) step {
		return step{what, at, func(r *requests.Row) string { return msText(at(r)) }}
	}
	arrival := func(r *requests.Row) requests.MS { return r.Arrival }
	admit := func(r *requests.Row) requests.MS { return r.Admit }
	placed := func(r *requests.Row) requests.MS {
		if r.Routed.Known() {
			return r.Routed
		}
		return r.Arrival
	}
	return []step{
		instant("arrival", arrival),
		{"size", arrival, func(r *requests.Row) string { return fmt.Sprintf("%d tokens in, %d out", r.Input, r.Output) }},
		{"prefill worker", placed, func(r *requests.Row) string { return workerText(r.PrefillWorker) }},
		{"worker", placed, func(r *requests.Row) string { return workerText(r.Worker) }},
		instant("admission", admit),
		{"reuse", admit, func(r *requests.Row) string { return fmt.Sprintf("%d tokens", r.Reused) }},
		instant("first token", func(r *requests.Row) requests.MS { return r.First }),
		instant("second token", func(r *requests.Row) requests.MS { return r.Second }),
		instant("last token", func(r *requests.Row) requests.MS { return r.Last }),
		{"answer", func(r *requests.Row) requests.MS { return r.Last }, func(r *requests.Row) string { return fmt.Sprintf("%d tokens", r.Tokens) }},
	}
}

func earlierTime(a, b requests.MS) float64 {
	switch {
	case !a.Known() && !b.Known():
		return math.MaxFloat64
	case !a.Known():
		return float64(b)
	case !b.Known():
		return float64(a)
	}
	return float64(min(a, b))
}

func workerText(w requests.Count) string {
	if !w.Known() {
		return "none"
	}
	return fmt.Sprintf("worker %d", w)
}
