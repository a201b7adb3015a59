// Package measured reads runs of real servers: the requests with their instants, the servers' settings, logs and metrics.
//
// Read measured.go, then client.go (generators.go, spans.go, recorded.go, tracev2.go, turns.go: the formats of
// requests), settings.go (reported.go, engines.go, sglang.go, sglanglog.go, trtllm.go, logs.go, unmodelled.go,
// graphs.go), counters.go (promtext.go), pods.go and prompts.go. models.go has what follows from data sheets, speeds.go
// finds slow servers.
package measured

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Run is one run of real servers.
type Run struct {
	Name     string
	Settings Settings
	Requests []Request // by arrival
	// Lead is the number of requests before the first that was measured: they are
	// replayed, and not judged.
	Lead   int
	Failed int       // requests that are left out
	late   []float64 // ms, by request that a client sent by a trace: after its time
	Client bool      // the times are a client's
	// ignored is the warm-up in s: its requests are replayed, but neither fitted to nor judged; nil: the default.
	Ignored *float64
	Cut     int // requests that are replayed up to where they broke off, and not judged
	assumed []string
	Untimed bool // of single requests nothing is known but their lengths
	Counted []*Counts
	Pods    []Pod               // as they logged what they did
	Speeds  []float64           // of the servers, relative to an ordinary one; nil: they are alike
	Taken   []int               // by request: the server that answered, where speeds need it
	Slow    []timing.SlowServer // those of them that are
	Prompts *Prompts            // as far as the run itself tells them; nil: it does not
	// Unread is why the router cannot read the KV events of servers, as its file and their logs have it.
	Unread []string
	// InFlight is the number of requests in flight in a closed loop; arrivals follow from it; 0: they arrive by
	// themselves.
	InFlight int
}

// Request is the measurements of one request. Instants are seconds on the clock
// of the server; the first arrival is at 0. In JSON it is a line of requests.jsonl.
type Request struct {
	ID        identifier `json:"request_id"`
	Input     int        `json:"input_toks"`
	Output    int        `json:"output_toks"`
	Arrival   float64    `json:"arrival_time"`   // when the server was handed the request
	Queued    float64    `json:"queued_ts"`      // when the scheduler took it in; NaN when not known
	Scheduled float64    `json:"scheduled_ts"`   // when it was first admitted; NaN when not known
	First     float64    `json:"first_token_ts"` // ends of the passes of the first and the last token
	Last      float64    `json:"last_token_ts"`
	Place     int        `json:"-"`                   // in the file, from 0
	Class     string     `json:"slo_class,omitempty"` // of service; "": there is one

	Cached *int   `json:"-"` // tokens of the prompt, as the server reports; nil: it does not
	Server string `json:"-"` // that answered; "": not known

	Gaps []float64 // between its tokens, in s; nil if they are not told
	lead bool      // it stands for one that was not measured
	Cut  bool      // it broke off: its output is what it had got by then
	Lane int       // of a closed loop, from 1; 0: there is none
}

// identifier is the name of a request, which files have as text or as a number.
type identifier string

// UnmarshalJSON reads either.
func (id *identifier) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] != '"' {
		var n json.Number
		err := json.Unmarshal(text, &n)
		*id = identifier(n)
		return err
	}
	return json.Unmarshal(text, (*string)(id))
}

// Fewest is the smallest number of requests that a server can be judged by.
const Fewest = 20

// ReadRun reads a run from a directory with meta.json, with requests.jsonl or the output of AIPerf or vllm bench serve,
// and optionally timeseries.csv. blocks, when not 0, is the number of KV blocks of a server, where its settings lack
// it. known has settings that meta.json lacks, by its keys; device_name is the GPU.
func ReadRun(dir string, blocks int, known map[string]any) (*Run, error) {
	inFlight, _ := known[inFlightKey].(float64)
	m, dir, err := openRun(dir, int(inFlight))
	if err != nil {
		return nil, err
	}
	if m.Untimed {
		return nil, fmt.Errorf("%s: nothing tells when the tokens of single requests came, only histograms: expected times to fit to; replay validate compares means", dir)
	}
	if m.Counted, err = readCounted(dir); err != nil {
		return nil, err
	}
	if m.Settings, err = ReadServer(dir, toldByMetrics(m.Counted), known); err != nil {
		return nil, err
	}
	m.Settings.checkEngine(known)
	m.Settings.Router = findRouter(dir)
	if m.Settings.Blocks == 0 {
		m.Settings.Blocks = blocks
	}
	m.alignClocks()
	if m.Client {
		m.Settings.AddNote("times are those of a client: the way to the server and back is fitted, too")
	}
	m.noteLeft()
	if err := m.readPods(dir); err != nil {
		return nil, err
	}
	if err := m.CompleteSettings(dir); err != nil {
		return nil, err
	}
	if err := m.Settings.checkModelled(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	m.FindSpeeds(m.Settings.Engines())
	return m, nil
}

func readRequests(path string) ([]Request, error) {
	var all []Request
	err := readLines(path, func(_ int, text []byte) error {
		if len(text) == 0 {
			return nil
		}
		r, err := readRequest(text)
		r.Place = len(all)
		all = append(all, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return checkCount(path, all)
}

// readLines calls read with the lines of a file and their numbers from 1. An error
// names file and line.
func readLines(path string, read func(line int, text []byte) error) error {
	f, err := scan.OpenPacked(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<26)
	for line := 1; lines.Scan(); line++ {
		if err := read(line, lines.Bytes()); err != nil {
			return fmt.Errorf("%s:%d: %w", path, line, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readEach calls do with the objects of a file, as each yields them, up to the first error.
func readEach(path string, each func(*scan.Lines, func(*scan.Fields) error, func(error) bool) error, do func(*scan.Fields) error) error {
	in, err := scan.OpenPacked(path)
	if err != nil {
		return err
	}
	defer in.Close()
	var bad error
	err = each(scan.NewLines(in, path, 0), do, func(wrong error) bool {
		bad = cmp.Or(bad, wrong)
		return false
	})
	return cmp.Or(err, bad)
}

func readRequest(text []byte) (Request, error) {
	x := Request{Arrival: math.NaN(), Queued: math.NaN(), Scheduled: math.NaN(), First: math.NaN(), Last: math.NaN()}
	if err := json.Unmarshal(text, &x); err != nil {
		return Request{}, err
	}
	for _, f := range []struct {
		name string
		v    float64
	}{{"queued_ts", x.Queued}, {"first_token_ts", x.First}, {"last_token_ts", x.Last}} {
		if math.IsNaN(f.v) {
			return Request{}, fmt.Errorf("%s is missing, must be an instant in s: without it nothing can be fitted", f.name)
		}
	}
	if x.Input < 1 || x.Output < 1 {
		return Request{}, errors.New("input_toks or output_toks is missing or below 1, expected two lengths of at least 1 token")
	}
	if !(x.First >= x.Queued && x.Last >= x.First) {
		return Request{}, fmt.Errorf("queued, first and last token at %v, %v and %v s, must be in this order", x.Queued, x.First, x.Last)
	}
	return x, nil
}

func compareArrivals(a, b *Request) int { return cmp.Compare(a.Arrival, b.Arrival) }

// noteLeft notes the requests of the run that are not judged, and the missing data.
func (m *Run) noteLeft() {
	if m.Failed > 0 {
		m.Settings.AddNote("%d requests failed and are left out", m.Failed)
	}
	if n, _, text := m.Late(); n > 0 {
		m.Settings.AddNote("arrivals differ from those of the trace: %s", text)
	}
	if m.Cut > 0 {
		m.Settings.AddNote("%d requests were cancelled or broke off: replayed with the tokens that they had got, and not judged", m.Cut)
	}
	for _, text := range m.assumed {
		m.Settings.AddNote("%s", text)
	}
	if m.Lead > 0 {
		m.Settings.AddNote("%d requests before the first were not recorded: like those after it, and not judged", m.Lead)
	}
}

// driftWindow is the length in s of the windows over which two clocks count as
// running alike.
const driftWindow = 60

// alignClocks puts arrivals, which the front end stamps by a separate clock, on the clock of the engine, and 0 if
// the first request arrives. The engine takes an idle server's request in at once, any other at the end of a pass: so
// the smallest difference is that of the clocks. Over long runs clocks drift, and each window has its own.
func (m *Run) alignClocks() {
	all := m.Requests
	if slices.ContainsFunc(all, func(r Request) bool { return math.IsNaN(r.Arrival) }) {
		for i := range all {
			all[i].Arrival = all[i].Queued
		}
	}
	stable.Sort(all, func(a, b Request) int { return compareArrivals(&a, &b) })
	begin := all[0].Arrival
	window := func(r *Request) int {
		if all[len(all)-1].Arrival-begin <= 2*driftWindow {
			return 0
		}
		return int((r.Arrival - begin) / driftWindow)
	}
	offsets := make([]float64, window(&all[len(all)-1])+1)
	for i := range offsets {
		offsets[i] = math.Inf(1)
	}
	for i := range all {
		w := window(&all[i])
		if q := all[i].Queued; !math.IsNaN(q) {
			offsets[w] = min(offsets[w], q-all[i].Arrival)
		}
	}
	for i := range all {
		if o := offsets[window(&all[i])]; !math.IsInf(o, 1) {
			all[i].Arrival += o
		}
	}
	zero := all[0].Arrival
	for i := range all {
		r := &all[i]
		for _, instant := range []*float64{&r.Arrival, &r.Queued, &r.Scheduled, &r.First, &r.Last} {
			*instant -= zero
		}
	}
}

// ReadRequests reads the requests of a run as ReadRun does, whatever its server is and whether
// or not meta.json is there. What a simulated scheduler does not do is in the notes. inFlight, when not 0, is how many requests a
// closed loop had at once.
func ReadRequests(dir string, inFlight int) (*Run, error) {
	m, dir, err := openRun(dir, inFlight)
	if err != nil {
		return nil, err
	}
	if m.Counted, err = readCounted(dir); err != nil {
		return nil, err
	}
	m.Settings, err = ReadServer(dir, toldByMetrics(m.Counted))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	m.Settings.Router = findRouter(dir)
	m.Settings.Notes = nil
	for _, text := range m.Settings.refusals {
		m.Settings.AddNote("not simulated: %s", text)
	}
	m.alignClocks()
	if m.Client {
		m.Settings.AddNote("%s", WayNotTold)
	}
	m.noteLeft()
	m.Settings.noteCounted(m.Counted, len(m.Requests)-m.Lead)
	if err := m.readPods(dir); err != nil {
		return nil, err
	}
	m.FindSpeeds(0)
	return m, nil
}

// WayNotTold is the assumption for a run that a client measured unless a profile has its way.
const WayNotTold = "times are those of a client: the way to the server and back is not simulated"

// CompleteSettings fills in missing settings of the run, by its requests and by timeseries.csv if there is one.
func (m *Run) CompleteSettings(dir string) error {
	load, err := readSeries(filepath.Join(dir, "timeseries.csv"))
	if err != nil {
		return err
	}
	if !m.Settings.IsVLLM() {
		m.Settings.completeServer(m.Requests)
	} else {
		m.Settings.resolveOpen(m.Name, m.Requests, load)
	}
	return nil
}
