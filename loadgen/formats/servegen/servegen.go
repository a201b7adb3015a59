// Package servegen generates requests from client profiles published by ServeGen. A profile has arrival rates and
// length distributions.
package servegen

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/sim"
)

// serveRows generates the requests of all clients.
type serveRows struct {
	s       *formats.Stream
	clients []*client
}

// client generates the requests of one client profile.
type client struct {
	number  int
	windows []rateWindow
	lengths []lengthWindow

	next  int // index of the next window
	times []float64
	at    int // index of the next arrival in times
	index int // number of requests so far
	draw  *rand.Rand
}

// rateWindow has the arrival process of 600 s.
type rateWindow struct {
	start, rate  float64 // start in s, rate in requests/s
	law          string
	shape, scale float64
}

// lengthWindow has the length distributions from start until the next window.
type lengthWindow struct {
	start  float64 // s
	fields []lengthTable
}

// lengthTable is the length distribution of a field.
type lengthTable struct {
	output bool
	values []int
	upTo   []float64 // cumulative probabilities
}

const rateSeconds = 600 // seconds per rateWindow

// readClient reads the two files of a client.
func readClient(dir string, number int) (*client, error) {
	traceName := filepath.Join(dir, fmt.Sprintf("chunk-%d-trace.csv", number))
	dataName := filepath.Join(dir, fmt.Sprintf("chunk-%d-dataset.json", number))
	trace, err := os.ReadFile(traceName)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(dataName)
	if err != nil {
		return nil, err
	}
	c := &client{number: number}
	for i, line := range bytes.Split(bytes.TrimRight(trace, "\r\n"), []byte{'\n'}) {
		w, err := parseRate(strings.Split(string(bytes.TrimSuffix(line, []byte{'\r'})), ","))
		if err != nil {
			return nil, scan.RowError(traceName, i+1, err)
		}
		c.windows = append(c.windows, w)
	}
	var f scan.Fields
	if err := f.OpenLine(data); err != nil {
		return nil, scan.RowError(dataName, 1, err)
	}
	for _, m := range f.Members {
		w, err := parseLengths(string(m.Key), f.OpenMember(m.Value, string(m.Key)))
		if err != nil {
			return nil, scan.RowError(dataName, scan.LineOf(data, scan.OffsetOf(data, m.Value)), err)
		}
		c.lengths = append(c.lengths, w)
	}
	stable.Sort(c.lengths, func(a, b lengthWindow) int { return int(a.start - b.start) })
	return c, nil
}

func parseRate(cells []string) (w rateWindow, err error) {
	if len(cells) != 6 {
		return w, fmt.Errorf("%d fields, must be 6", len(cells))
	}
	numbers := []struct {
		name string
		at   int
		to   *float64
	}{{"window start", 0, &w.start}, {"rate", 1, &w.rate}, {"shape", 4, &w.shape}, {"scale", 5, &w.scale}}
	for i, n := range numbers {
		text := strings.TrimSpace(cells[n.at])
		if text == "" && i >= 2 {
			continue
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return w, excerpt.Errorf("%s is %q, must be a number >= 0", n.name, text)
		}
		*n.to = x
	}
	w.law = strings.TrimSpace(cells[3])
	switch {
	case w.law == "" || w.rate == 0:
		w.rate = 0
	case w.law != "Gamma" && w.law != "Weibull":
		return w, excerpt.Errorf("law is %q, must be Gamma or Weibull", w.law)
	case w.shape == 0 || w.scale == 0:
		return w, fmt.Errorf("shape is %v and scale is %v, must be > 0", w.shape, w.scale)
	}
	return w, nil
}

func parseLengths(start string, f *scan.Fields) (w lengthWindow, err error) {
	if w.start, err = strconv.ParseFloat(start, 64); err != nil {
		return w, excerpt.Errorf("window start is %q, must be seconds", start)
	}
	for _, name := range []string{"input_tokens", "text_tokens", "image_tokens", "audio_tokens", "video_tokens", "output_tokens"} {
		text := f.ReadText(name)
		if text == nil || (name != "input_tokens" && name != "output_tokens" && f.Has("input_tokens")) {
			continue
		}
		t, err := parseDict(name, text)
		if err != nil {
			return w, err
		}
		if len(t.values) > 0 {
			t.output = name == "output_tokens"
			w.fields = append(w.fields, t)
		}
	}
	return w, f.Err
}

// parseDict reads a Python dictionary of numbers, for example {10: 0.5, 20: 0.5}.
func parseDict(name string, text []byte) (t lengthTable, err error) {
	inner, ok := bytes.CutPrefix(bytes.TrimSpace(text), []byte{'{'})
	if inner, _ = bytes.CutSuffix(inner, []byte{'}'}); !ok {
		return t, fmt.Errorf("%s is %q, must be {number: number, …}", name, excerpt.Cut(text))
	}
	sum, column := 0.0, 2
	for pair := range bytes.SplitSeq(inner, []byte{','}) {
		if len(bytes.TrimSpace(pair)) == 0 {
			continue
		}
		left, right, _ := bytes.Cut(pair, []byte{':'})
		value, err1 := strconv.ParseFloat(strings.TrimSpace(string(left)), 64)
		p, err2 := strconv.ParseFloat(strings.TrimSpace(string(right)), 64)
		if err1 != nil || err2 != nil || !(value >= 0 && value <= scan.MaxTokens) || !(p >= 0 && p <= 1.000001) {
			return t, fmt.Errorf("%s column %d is %q, must be number: number", name, column, excerpt.Cut(bytes.TrimSpace(pair)))
		}
		column += len(pair) + 1
		sum += p
		t.values, t.upTo = append(t.values, int(value)), append(t.upTo, sum)
	}
	if len(t.values) > 0 && math.Abs(sum-1) > 1e-6 {
		return t, fmt.Errorf("%s probabilities sum to %v, must be 1", name, math.Round(sum*1e9)/1e9)
	}
	return t, nil
}

// at returns the u-quantile.
func (t *lengthTable) at(u float64) int {
	i, _ := slices.BinarySearch(t.upTo, u)
	return t.values[min(i, len(t.values)-1)]
}

// Open opens the clients with the given numbers.
func Open(s *formats.Stream, dir string, numbers []int) (formats.Reader, error) {
	s.Private = true
	p := &serveRows{s: s}
	for _, n := range numbers {
		c, err := readClient(dir, n)
		if err != nil {
			return nil, err
		}
		c.draw = sim.NewRand(s.Options.Seed, fmt.Sprintf("servegen/%d/lengths", n))
		p.clients = append(p.clients, c)
	}
	return p, nil
}

// Next returns the earliest next request of all clients.
func (p *serveRows) Next(r *formats.Record) error {
	var first *client
	for _, c := range p.clients {
		if c.hasNext(&p.s.Options) && (first == nil || c.times[c.at] < first.times[first.at]) {
			first = c
		}
	}
	if first == nil {
		return io.EOF
	}
	at := first.times[first.at]
	first.at++
	first.index++
	r.Reset(first.index)
	r.Arrives(scan.Stamp{MS: at * 1000})
	for i, u := 0, first.draw.Float64(); i < len(first.lengthsAt(at)); i++ {
		t := &first.lengthsAt(at)[i]
		if t.output {
			r.Output += t.at(u)
		} else {
			r.Input += t.at(u)
		}
	}
	if r.Input == 0 {
		r.Output = 0 // without length data the request is handled like a request with 0 output tokens
	}
	return nil
}

// hasNext reports whether the client has another request. If needed, it generates the arrivals of the next windows.
func (c *client) hasNext(o *formats.Options) bool {
	for c.at == len(c.times) {
		if c.next == len(c.windows) {
			return false
		}
		c.times, c.at = c.times[:0], 0
		w := &c.windows[c.next]
		c.next++
		if w.rate > 0 && w.start >= o.From && (o.To == 0 || w.start < o.To) {
			c.drawArrivals(w, o)
		}
	}
	return true
}

// drawArrivals generates the arrivals in a window. Random gaps are scaled so that their sum is the length of the
// window.
func (c *client) drawArrivals(w *rateWindow, o *formats.Options) {
	rate := w.rate
	if o.Rate > 0 {
		rate *= o.Rate
	}
	random := sim.NewRand(o.Seed, fmt.Sprintf("servegen/%d/%d", c.number, c.next-1))
	n := int(math.Ceil(min(rate*rateSeconds, 1e8)))
	sum := 0.0
	for range n {
		gap := 0.0
		if w.law == "Gamma" {
			gap = distuv.Gamma{Alpha: w.shape, Beta: 1 / w.scale, Src: random}.Rand()
		} else {
			gap = distuv.Weibull{K: w.shape, Lambda: w.scale, Src: random}.Rand()
		}
		sum += gap
		c.times = append(c.times, sum)
	}
	kept := 0
	for _, t := range c.times {
		at := float64(t * (rateSeconds / sum))
		if at < rateSeconds {
			c.times[kept] = w.start + at
			kept++
		}
	}
	c.times = c.times[:kept]
}

// lengthsAt returns the length distributions at a time in s.
func (c *client) lengthsAt(at float64) []lengthTable {
	for i := len(c.lengths) - 1; i >= 0; i-- {
		if c.lengths[i].start <= at {
			return c.lengths[i].fields
		}
	}
	return nil
}

// FindClients returns the numbers of the clients with files in a directory.
func FindClients(dir string, names []string) (numbers []int, err error) {
	for _, n := range names {
		number, isTrace := strings.CutPrefix(n, "chunk-")
		number, isTrace2 := strings.CutSuffix(number, "-trace.csv")
		i, err := strconv.Atoi(number)
		if !isTrace || !isTrace2 || err != nil {
			continue
		}
		if data := "chunk-" + number + "-dataset.json"; !slices.Contains(names, data) {
			return nil, &loadgen.SyntaxError{Name: dir, Msg: fmt.Sprintf("%s has no %s, expected both", n, data)}
		}
		numbers = append(numbers, i)
	}
	slices.Sort(numbers)
	return numbers, nil
}
