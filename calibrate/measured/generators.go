package measured

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/replay-llm/replay/loadgen/formats/entries"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// generated holds the content of a file of a load generator.
type generated struct {
	runs       int
	bench      *bench    // the first run, if a file of vllm bench serve or sglang.bench_serving has it
	guide      *guideRun // the first benchmark, if a file of GuideLLM has it
	benchmarks int       // number of benchmarks in the first run
	spans      []spanRow
	zero       float64 // origin of the instants of spans, in s since 1970; NaN before the first span
	missing    string  // what the first object lacks, if its generator is known; "": unknown
	exported   bool    // the first object is a record of AIPerf
}

// readResult reads the requests of a file that a load generator wrote.
func (m *Run) readResult(path string) error {
	x := generated{zero: math.NaN()}
	if err := readEach(path, (*scan.Lines).EachObject, x.read); err != nil {
		return err
	}
	m.Client = true
	switch {
	case x.exported:
		var err error
		m.Requests, m.Failed, err = readAIPerf(path)
		return err
	case x.runs > 0 || len(x.spans) > 0:
		return m.takeGenerated(path, &x)
	case x.missing != "":
		return fmt.Errorf("%s: %s", path, x.missing)
	}
	return fmt.Errorf("%s is a file, must be the directory of a run, turns (rows of isl, osl, ttft_ms and e2e_ms), or a result of vllm bench serve, sglang.bench_serving, AIPerf or GuideLLM", path)
}

// noteMissing records what an object of a file lacks to be a run.
func (x *generated) noteMissing(f *scan.Fields) {
	if x.missing != "" || x.exported {
		return
	}
	has := func(key string) bool { return len(f.ReadList(key)) > 0 }
	switch {
	case f.Has("metrics") && f.Has("metadata"):
		x.exported = true
	case f.Has("request_throughput"):
		var lists []string
		for _, key := range []string{"input_lens", "output_lens", "ttfts", "itls"} {
			if !has(key) {
				lists = append(lists, key)
			}
		}
		x.missing = "has no " + strings.Join(lists, ", ") + ": must be a result of vllm bench serve --save-result --save-detailed, or of sglang.bench_serving --output-details"
	case has("experiments"):
		x.missing = "genai-perf has no input_sequence_length and output_sequence_length of requests: expected the profile_export.jsonl of AIPerf"
	case f.Has("benchmarks"):
		x.missing = "has no benchmarks[0].requests.successful: expected the JSON report of GuideLLM with its requests"
	case f.Has("request_latency") && f.Has("request_count"):
		x.missing = "has means and percentiles, no requests: requires the profile_export.jsonl that AIPerf wrote"
	}
}

// readGenerated reads spans of requests or the result of a load generator: vllm bench serve, sglang.bench_serving or
// GuideLLM. readGenerated returns false if the file holds no requests with times.
func (m *Run) readGenerated(path string) (found bool, err error) {
	x := generated{zero: math.NaN()}
	if err := readEach(path, (*scan.Lines).EachObject, x.read); err != nil {
		return false, err
	}
	if x.runs == 0 && len(x.spans) == 0 {
		return false, nil
	}
	return true, m.takeGenerated(path, &x)
}

// takeGenerated adds the requests of a file to m.
func (m *Run) takeGenerated(path string, x *generated) (err error) {
	switch {
	case x.runs == 0:
		err = m.readSpans(path, x.spans)
	case x.runs > 1 || x.benchmarks > 1:
		return fmt.Errorf("%s: %d runs, must be a file of one: each is a separate measured run", path, max(x.runs, x.benchmarks))
	case x.benchmarks == 1:
		err = m.readGuide(path, x.guide)
	default:
		err = m.readBench(path, x.bench)
	}
	if err == nil {
		m.Requests, err = checkCount(path, m.Requests)
	}
	return err
}

// read reads an object of the file.
func (x *generated) read(f *scan.Fields) error {
	entries.EachSpan(f, x.addSpan)
	found, benchmarks := len(f.ReadList("input_lens")) > 0, 0
	var guide *guideRun
	for i, benchmark := range f.Elements("benchmarks") {
		requests := benchmark.OpenSub("requests")
		found = found || len(requests.ReadList("successful")) > 0
		if benchmarks++; i == 0 {
			guide = newGuideRun(requests)
		}
	}
	if found {
		x.runs++
	} else {
		x.noteMissing(f)
	}
	if !found || x.runs > 1 {
		return nil
	}
	if x.guide, x.benchmarks = guide, benchmarks; benchmarks == 0 {
		x.bench = newBench(f)
	}
	return nil
}

// bench is the result of vllm bench serve or of sglang.bench_serving. bench has the times of requests if the file has
// them.
type bench struct {
	*entries.Bench
	starts, ttfts []float64   // s
	itls          [][]float64 // s
	unlimited     bool        // the rate of requests is unlimited
	concurrency   int         // concurrent requests; 0: unknown
}

func newBench(f *scan.Fields) *bench {
	concurrency, _ := f.ReadInteger("max_concurrency")
	b := &bench{Bench: entries.ReadBench(f), concurrency: int(concurrency)}
	rate := string(f.Value("request_rate"))
	b.unlimited = rate == "Infinity" || rate == `"inf"`
	b.starts, b.ttfts = entries.Numbers(f, "start_times", b.Starts), entries.Numbers(f, "ttfts", b.TTFTs)
	for i, v := range b.ITLs {
		name := fmt.Sprintf("itls[%d]", i)
		gaps, ok := scan.SplitList(v, nil)
		if !ok && string(v) != "null" {
			f.Mismatch(name, v, "a list")
		}
		b.itls = append(b.itls, entries.Numbers(f, name, gaps))
	}
	return b
}

// readBench reads the lists of a result.
func (m *Run) readBench(path string, b *bench) error {
	n := len(b.Inputs)
	if len(b.Outputs) != n || len(b.ttfts) != n || len(b.itls) != n {
		return fmt.Errorf("%s: %d input_lens, %d output_lens, %d ttfts and %d itls, expected as many of each", path, n, len(b.Outputs), len(b.ttfts), len(b.itls))
	}
	if len(b.starts) != n {
		if len(b.starts) > 0 || !b.unlimited {
			return fmt.Errorf("%s: %d start_times for %d requests, and a request_rate that is not inf: without them the arrivals are unknown", path, len(b.starts), n)
		}
		m.assumed = append(m.assumed, b.start())
	}
	for i := range n {
		if b.Failed(i) {
			m.Failed++
			continue
		}
		r, err := b.request(i)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		case r.Output == 0:
			m.Failed++
			continue
		case r.Input < 1:
			return fmt.Errorf("%s: request %d has %d input and %d output tokens, must have at least 1", path, i, r.Input, r.Output)
		}
		m.Requests = append(m.Requests, r)
	}
	return nil
}

// start sets the start of each request by the rule of its generator. The generator sends all requests at once, or it
// keeps a fixed number in flight. The result describes the rule.
func (b *bench) start() string {
	n := len(b.Inputs)
	b.starts = make([]float64, n)
	if b.concurrency < 1 {
		return "start_times are not told: all requests were sent at once, as request_rate is inf"
	}
	var ends []float64 // of requests in progress
	for i := range n {
		if len(ends) == b.concurrency {
			first := slices.Index(ends, slices.Min(ends))
			b.starts[i] = ends[first]
			ends = slices.Delete(ends, first, first+1)
		}
		end := b.starts[i] + b.ttfts[i]
		for _, gap := range b.itls[i] {
			end += gap
		}
		ends = append(ends, end)
	}
	return fmt.Sprintf("start_times are not told: requests were sent in their order, each when one of %d had ended, as max_concurrency and a request_rate of inf have it", b.concurrency)
}

// request returns request i of the lists.
func (b *bench) request(i int) (r Request, err error) {
	if r.Input, r.Output, err = b.Lengths(i); err != nil {
		return r, err
	}
	first := b.starts[i] + b.ttfts[i]
	r = Request{
		ID: identifier(fmt.Sprint(i)), Place: i, Input: r.Input, Output: r.Output,
		Arrival: b.starts[i], First: first, Last: first, Queued: math.NaN(), Scheduled: math.NaN(), Gaps: b.itls[i],
	}
	for _, gap := range b.itls[i] {
		r.Last += gap
	}
	if len(b.Cached) == len(b.Inputs) {
		if n, ok := scan.WholeNumber(b.Cached[i]); ok {
			tokens := int(n)
			r.Cached = &tokens
		}
	}
	return r, nil
}

// guideRun is a benchmark of GuideLLM. guideRun groups requests by how they ended.
type guideRun struct {
	successful, incomplete []Request
	errored                int
}

func newGuideRun(requests *scan.Fields) *guideRun {
	g := &guideRun{errored: len(requests.ReadList("errored"))}
	for _, row := range requests.Elements("successful") {
		g.successful = append(g.successful, guideRequest(row))
	}
	for _, row := range requests.Elements("incomplete") {
		g.incomplete = append(g.incomplete, guideRequest(row))
	}
	return g
}

// guideRequest returns a row as a request. Instants are s since 1970, and a time that the row lacks is NaN.
func guideRequest(row *scan.Fields) Request {
	g := entries.ReadGuide(row)
	r := Request{ID: identifier(row.ReadName("request_id")), Queued: math.NaN(), Scheduled: math.NaN()}
	r.Input, r.Output = countOf(g.Input()), countOf(g.Output())
	r.Arrival, r.First, r.Last = g.Times()
	return r
}

// countOf returns a number of tokens, 0 if the key is absent.
func countOf(f *scan.Fields, key string) int {
	n, _ := f.ReadCount(key)
	return n
}

// readGuide reads a benchmark of GuideLLM. Requests cut off by the end of the benchmark count with the tokens they
// received.
func (m *Run) readGuide(path string, g *guideRun) error {
	for i, r := range g.successful {
		if r.Input < 1 || r.Output < 1 || !(r.Arrival <= r.First && r.First <= r.Last) {
			return fmt.Errorf("%s: successful request %d has %d input and %d output tokens, sent, first and last token at %v, %v and %v s, must have at least 1 of each, and times in this order",
				path, i, r.Input, r.Output, r.Arrival, r.First, r.Last)
		}
		m.addRequest(r)
	}
	for _, r := range g.incomplete {
		m.addCut(r)
	}
	m.Failed += g.errored
	return nil
}

// addRequest adds the next request of a file.
func (m *Run) addRequest(r Request) {
	r.Place = len(m.Requests)
	m.Requests = append(m.Requests, r)
}

// addCut adds a request that was cancelled or cut off, with the tokens it had received. The server worked on such a
// request, but the request is not judged. Requests without tokens are left out because the work on them is unknown.
// The result reports whether the request was added.
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
