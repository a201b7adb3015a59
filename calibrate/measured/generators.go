package measured

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/json"
)

// bench is the result of vllm bench serve or of sglang.bench_serving, with a value per request
// in each list.
type bench struct {
	Inputs      []int       `json:"input_lens"`
	Outputs     []int       `json:"output_lens"`
	TTFTs       []float64   `json:"ttfts"` // s
	ITLs        [][]float64 `json:"itls"`  // s
	Starts      []float64   `json:"start_times"`
	Errors      []any       `json:"errors"`
	Cached      []*int      `json:"cached_tokens"`
	Rate        any         `json:"request_rate"`
	Concurrency *int        `json:"max_concurrency"`

	Benchmarks []guideRun  `json:"benchmarks"`    // of GuideLLM
	Spans      []otlpBatch `json:"resourceSpans"` // of OpenTelemetry
}

// mostResult bounds the result of a load generator.
const mostResult = 1 << 30

// readGenerated reads the result of a load generator: vllm bench serve, sglang.bench_serving
// or GuideLLM; or spans of requests. It reports false when the file holds no requests with times.
func (m *Run) readGenerated(path string) (found bool, err error) {
	f, err := openPacked(path)
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(io.LimitReader(f, mostResult+1))
	f.Close()
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if len(text) > mostResult {
		return false, fmt.Errorf("%s: more than %d bytes, want a result of at most that", path, mostResult)
	}
	// Python writes numbers that JSON does not have.
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(": Infinity"), []byte(`: "inf"`)), []byte(": NaN"), []byte(": null"))
	var runs []bench
	var batches []otlpBatch
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var b bench
		err := d.Decode(&b)
		if err == io.EOF {
			break
		}
		if err != nil {
			at := min(int(d.InputOffset()), len(text))
			at += len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n"))
			return false, fmt.Errorf("%s:%d: %w", path, 1+bytes.Count(text[:at], []byte{'\n'}), err)
		}
		batches = append(batches, b.Spans...)
		if len(b.Inputs) > 0 || slices.ContainsFunc(b.Benchmarks, func(g guideRun) bool { return len(g.Requests.Successful) > 0 }) {
			runs = append(runs, b)
		}
	}
	switch {
	case len(runs) == 0 && len(batches) == 0:
		return false, nil
	case len(runs) == 0:
		err = m.readSpans(path, batches)
	case len(runs) > 1 || len(runs[0].Benchmarks) > 1:
		return true, fmt.Errorf("%s: %d runs, want a file of one: each is a measured run of its own", path, max(len(runs), len(runs[0].Benchmarks)))
	case len(runs[0].Benchmarks) == 1:
		err = m.readGuide(path, &runs[0].Benchmarks[0])
	default:
		err = m.readBench(path, &runs[0])
	}
	if err == nil {
		m.Requests, err = checkCount(path, m.Requests)
	}
	return true, err
}

// readBench reads the lists of a result.
func (m *Run) readBench(path string, b *bench) error {
	n := len(b.Inputs)
	if len(b.Outputs) != n || len(b.TTFTs) != n || len(b.ITLs) != n {
		return fmt.Errorf("%s: %d input_lens, %d output_lens, %d ttfts and %d itls, want as many of each", path, n, len(b.Outputs), len(b.TTFTs), len(b.ITLs))
	}
	if len(b.Starts) != n {
		if len(b.Starts) > 0 || b.Rate != "inf" {
			return fmt.Errorf("%s: %d start_times for %d requests, and a request_rate that is not inf: without them nobody knows when a request arrived", path, len(b.Starts), n)
		}
		m.assumed = append(m.assumed, b.start())
	}
	for i := range n {
		if i < len(b.Errors) && b.Errors[i] != nil && b.Errors[i] != "" || b.Outputs[i] == 0 {
			m.Failed++
			continue
		}
		if b.Inputs[i] < 1 || b.Outputs[i] < 1 {
			return fmt.Errorf("%s: request %d has %d input and %d output tokens, want at least 1", path, i, b.Inputs[i], b.Outputs[i])
		}
		m.Requests = append(m.Requests, b.request(i))
	}
	return nil
}

// start sets the start of each request as a generator has it that sends all at once, or the
// next as soon as one of so many has ended, and returns that in words.
func (b *bench) start() string {
	n := len(b.Inputs)
	b.Starts = make([]float64, n)
	if b.Concurrency == nil || *b.Concurrency < 1 {
		return "start_times are not told: all requests were sent at once, as request_rate is inf"
	}
	var ends []float64 // of those under way
	for i := range n {
		if len(ends) == *b.Concurrency {
			first := slices.Index(ends, slices.Min(ends))
			b.Starts[i] = ends[first]
			ends = slices.Delete(ends, first, first+1)
		}
		end := b.Starts[i] + b.TTFTs[i]
		for _, gap := range b.ITLs[i] {
			end += gap
		}
		ends = append(ends, end)
	}
	return fmt.Sprintf("start_times are not told: requests were sent in their order, each when one of %d had ended, as max_concurrency and a request_rate of inf have it", *b.Concurrency)
}

// request returns entry i of the lists.
func (b *bench) request(i int) Request {
	r := Request{
		ID: identifier(fmt.Sprint(i)), Place: i, Input: b.Inputs[i], Output: b.Outputs[i],
		Arrival: b.Starts[i], First: b.Starts[i] + b.TTFTs[i], Queued: math.NaN(), Scheduled: math.NaN(), Gaps: b.ITLs[i],
	}
	r.Last = r.First
	for _, gap := range b.ITLs[i] {
		r.Last += gap
	}
	if len(b.Cached) == len(b.Inputs) {
		r.Cached = b.Cached[i]
	}
	return r
}

// guideRun is a benchmark of GuideLLM: its requests by how they ended.
type guideRun struct {
	Requests struct {
		Successful []guideRow `json:"successful"`
		Incomplete []guideRow `json:"incomplete"`
		Errored    []guideRow `json:"errored"`
	} `json:"requests"`
}

// guideRow is a request of GuideLLM: instants are s since 1970.
type guideRow struct {
	ID     identifier `json:"request_id"`
	Input  guideCount `json:"input_metrics"`
	Output guideCount `json:"output_metrics"`
	About  struct {
		Times struct {
			Start *float64 `json:"request_start"`
			First *float64 `json:"first_token_iteration"`
			Last  *float64 `json:"last_token_iteration"`
			// As releases before 0.5 have them.
			FirstPiece *float64 `json:"first_iteration"`
			LastPiece  *float64 `json:"last_iteration"`
		} `json:"timings"`
	} `json:"info"`
	// As releases before 0.4 have them.
	OldInput  int      `json:"prompt_tokens"`
	OldOutput int      `json:"output_tokens"`
	OldStart  *float64 `json:"start_time"`
	OldFirst  *float64 `json:"first_token_time"`
	OldLast   *float64 `json:"last_token_time"`
}

type guideCount struct {
	Text int `json:"text_tokens"`
}

// request returns the row as a request, whose times are NaN where they are not told.
func (x *guideRow) request() Request {
	t := &x.About.Times
	instant := func(choices ...*float64) float64 {
		for _, at := range choices {
			if at != nil {
				return *at
			}
		}
		return math.NaN()
	}
	return Request{
		ID: x.ID, Input: max(x.Input.Text, x.OldInput), Output: max(x.Output.Text, x.OldOutput), Arrival: instant(t.Start, x.OldStart),
		First: instant(t.First, t.FirstPiece, x.OldFirst), Last: instant(t.Last, t.LastPiece, x.OldLast), Queued: math.NaN(), Scheduled: math.NaN(),
	}
}

// readGuide reads a benchmark of GuideLLM. Requests that its end cut short count as far as
// they came.
func (m *Run) readGuide(path string, g *guideRun) error {
	for i := range g.Requests.Successful {
		r := g.Requests.Successful[i].request()
		if r.Input < 1 || r.Output < 1 || !(r.Arrival <= r.First && r.First <= r.Last) {
			return fmt.Errorf("%s: successful request %d has %d input and %d output tokens, sent, first and last token at %v, %v and %v s, want at least 1 of each, and times in this order",
				path, i, r.Input, r.Output, r.Arrival, r.First, r.Last)
		}
		m.addRequest(r)
	}
	for i := range g.Requests.Incomplete {
		m.addCut(g.Requests.Incomplete[i].request())
	}
	m.Failed += len(g.Requests.Errored)
	return nil
}

// addRequest adds the next request of a file.
func (m *Run) addRequest(r Request) {
	r.Place = len(m.Requests)
	m.Requests = append(m.Requests, r)
}

// addCut adds a request that was cancelled or broke off, with the tokens that it had got: the
// server worked for it, and it is not judged. Nothing is known of the work for those that got
// none, which are left out. It reports whether it was added.
func (m *Run) addCut(r Request) bool {
	if r.Input < 1 || r.Output < 1 || math.IsNaN(r.Arrival) {
		m.Failed++
		return false
	}
	r.First, r.Last, r.Cut = math.NaN(), math.NaN(), true
	m.addRequest(r)
	m.Cut++
	return true
}
