// Package measured reads runs of real servers: the requests with their instants, and the settings, logs and metrics
// of the servers.
//
// Read measured.go, then client.go (generators.go, spans.go, recorded.go, tracev2.go, turns.go: the formats of
// requests), settings.go (reported.go, engines.go, sglang.go, sglanglog.go, trtllm.go, logs.go, unmodelled.go,
// graphs.go), counters.go (promtext.go), pods.go and prompts.go. models.go uses data sheets, and speeds.go finds slow
// servers.
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
	// Lead is the number of requests before the first measured request. The lead requests are replayed but not
	// judged.
	Lead   int
	Failed int       // number of requests that are left out
	late   []float64 // delays in ms of requests that a client sent by a trace
	Client bool      // a client measured the times
	// Ignored is the length of the warm-up in s, nil for the default. Requests in the warm-up are replayed, but
	// neither fitted to nor judged.
	Ignored *float64
	Cut     int // number of requests that were cut off; replayed up to that point and not judged
	assumed []string
	Untimed bool // only the lengths of single requests are known
	Counted []*Counts
	Pods    []Pod               // servers by their logs
	Speeds  []float64           // of the servers, relative to an ordinary one; nil: all are equal
	Taken   []int               // by request: the server that answered, if the speeds need it
	Slow    []timing.SlowServer // the slow servers
	Prompts *Prompts            // prompts as far as they follow from the run; nil: unknown
	// Unread holds the reasons why the router cannot read the KV events of servers. The reasons follow from the
	// router's file and the servers' logs.
	Unread []string
	// InFlight is the number of requests in flight in a closed loop, and the arrivals follow from it. InFlight is 0
	// if requests have their own arrivals.
	InFlight int
}

// Request holds the measurements of one request. Instants are seconds on the clock of the server, and the first
// arrival is at 0. In JSON, Request is a line of requests.jsonl.
type Request struct {
	ID        identifier `json:"request_id"`
	Input     int        `json:"input_toks"`
	Output    int        `json:"output_toks"`
	Arrival   float64    `json:"arrival_time"`   // at the server
	Queued    float64    `json:"queued_ts"`      // start of the wait in the scheduler; NaN: unknown
	Scheduled float64    `json:"scheduled_ts"`   // first admission; NaN: unknown
	First     float64    `json:"first_token_ts"` // ends of the passes of the first and the last token
	Last      float64    `json:"last_token_ts"`
	Place     int        `json:"-"`                   // index in the file
	Class     string     `json:"slo_class,omitempty"` // class of service; "": the run has only one class

	Cached *int   `json:"-"` // tokens of the prompt, from the server; nil: unknown
	Server string `json:"-"` // the server that answered; "": unknown

	Gaps []float64 // times between the tokens of the request, in s; nil: unknown
	lead bool      // the request replaces a request that was not measured
	Cut  bool      // the request was cut off, and Output is the number of tokens until then
	Lane int       // lane of a closed loop, from 1; 0: none
}

// identifier is the name of a request. In files, identifier is a text or a number.
type identifier string

// UnmarshalJSON reads a text or a number.
func (id *identifier) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] != '"' {
		var n json.Number
		err := json.Unmarshal(text, &n)
		*id = identifier(n)
		return err
	}
	return json.Unmarshal(text, (*string)(id))
}

// Fewest is the smallest number of requests for a judgement of a server.
const Fewest = 20

// ReadRun reads a run from a directory with meta.json. The directory also has requests.jsonl or the output of AIPerf
// or vllm bench serve, and optionally timeseries.csv. The number blocks, if it is not 0, is the number of KV blocks
// of a server, for settings without it. The map known has settings that meta.json lacks, by its keys. The key
// device_name is the GPU.
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
	if m.Settings, err = ReadServer(dir, settingsInMetrics(m.Counted), known); err != nil {
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

// readLines calls read with each line of a file and its number, counted from 1. An error names file and line.
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

// readEach calls do with the objects of a file, which each finds. readEach stops at the first error.
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

// noteLeft adds notes about the requests that are not judged and about missing data.
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

// driftWindow is the length in s of the windows without significant drift between two clocks.
const driftWindow = 60

// alignClocks converts arrivals to the clock of the engine, because the front end records them by a separate clock.
// After the conversion, the first arrival is at 0. The engine takes a request immediately if it is idle, otherwise at
// the end of a pass. Therefore, the smallest difference is the difference of the clocks. Clocks drift over long runs,
// so each window has a separate difference.
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

// ReadRequests reads the requests of a run as ReadRun does, for any server and also without meta.json. The notes list
// what a simulated scheduler does not support. A value of inFlight above 0 is the number of concurrent requests of a
// closed loop.
func ReadRequests(dir string, inFlight int) (*Run, error) {
	m, dir, err := openRun(dir, inFlight)
	if err != nil {
		return nil, err
	}
	if m.Counted, err = readCounted(dir); err != nil {
		return nil, err
	}
	m.Settings, err = ReadServer(dir, settingsInMetrics(m.Counted))
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

// WayNotTold is the assumption for a run that a client measured, unless a profile has the client's way.
const WayNotTold = "times are those of a client: the way to the server and back is not simulated"

// CompleteSettings adds missing settings of the run. The settings follow from the run's requests and, if it exists,
// from timeseries.csv.
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
