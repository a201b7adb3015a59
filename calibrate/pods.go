package calibrate

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/deployment"
)

// pod is what a server logged of itself while it served.
type pod struct {
	name      string
	lines     int
	load      float64   // requests that ran, on average; 0: not told
	off       float64   // standard deviation, as a share, of the time per token
	running   float64   // sums over its lines
	generated float64   // tokens a second
	served    float64   // the same over all lines, those of its start and its end, too
	steps     []float64 // generated tokens a second, by line
	hit       float64   // share of prompt tokens found cached, of the latest requests; NaN: not told
	latest    int       // how many requests these are at most; 0: all
	// asked are the arguments of vLLM with which it was started, by its own names; nil: not told.
	asked map[string]string
}

// slowPod is by how much a server's tokens take longer than those of its peers where it is
// said to be slow, and fewLines how many lines it takes to say so. A server starts for startSpan s, or so many lines: it
// compiles kernels, and then works off what has queued. lineScatter is the standard deviation of what one line tells of the time
// per token, as a share: a server's few lines may have less by chance.
const (
	slowPod     = 0.08
	fewLines    = 5
	startSpan   = clientWarmUp + logPeriod
	startLines  = 3
	lineScatter = 0.15
)

const secondsOfDay = 86400

// recentRequests is the number of requests of which vLLM logs the hit rate.
const recentRequests = 1000

// readPods reads what the servers of a run say of themselves, in logs or else in metrics, and
// notes who is slow.
func (m *Measured) readPods(dir string) (err error) {
	if m.pods, err = readPods(dir); err != nil {
		return err
	}
	if len(m.pods) == 0 {
		m.pods = podsOf(m.counted)
	}
	m.noteSlow()
	return nil
}

// readPods reads what the servers of a run logged every few seconds.
func readPods(dir string) ([]pod, error) {
	logs, err := findLogs(dir)
	if err != nil {
		return nil, err
	}
	var all []pod
	form := newPodLines()
	for _, path := range logs {
		f, err := openPacked(path)
		if err != nil {
			return nil, err
		}
		var rows []podRow
		var prompts [2]float64
		var asked map[string]string
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if row, ok := form.read(lines.Text(), &prompts); ok {
				rows = append(rows, row)
			} else if all, ok := deployment.ReadArguments(lines.Text()); ok {
				asked = all
			}
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		p := newPod(filepath.Base(path), rows)
		p.asked = asked
		if prompts[1] > 0 {
			p.hit, p.latest = prompts[0]/prompts[1], 0
		}
		all = append(all, p)
	}
	return all, nil
}

// newPod adds up the lines of a server. Those of its start do not count, nor the last one, while it empties, nor those
// in which it had nothing to do. The hit rate is that of the last line: each is one of the requests before it.
func newPod(name string, rows []podRow) pod {
	p := pod{name: name, hit: math.NaN(), latest: recentRequests}
	var busy []podRow
	for _, r := range rows {
		p.served += r.served
		if !math.IsNaN(r.hit) {
			p.hit = r.hit
		}
		if r.running > 0 || r.generated > 0 {
			busy = append(busy, r)
		}
	}
	start := countStart(busy)
	if len(busy) <= start+1 {
		return p
	}
	busy = busy[start : len(busy)-1]
	p.lines = len(busy)
	for _, r := range busy {
		if r.steady {
			p.steps = append(p.steps, r.generated)
		}
		p.generated, p.running = p.generated+r.generated, p.running+r.running
	}
	p.load = p.running / float64(p.lines)
	p.off = ratioScatter(p.lines, p.perToken(), func(i int) (float64, float64) { return busy[i].running, busy[i].generated })
	p.off = max(p.off, lineScatter/math.Sqrt(float64(p.lines)))
	return p
}

// countStart returns how many lines of a server are of its start: by their time or, where that is not told, by their
// number.
func countStart(busy []podRow) int {
	if n := len(busy); n > 0 && busy[0].at == busy[n-1].at { // a clock that stands still
		return startLines
	}
	for i := range busy {
		at := busy[i].at - busy[0].at
		if at < 0 {
			at += secondsOfDay
		}
		switch {
		case math.IsNaN(at):
			return startLines
		case at >= startSpan:
			return i
		}
	}
	return len(busy)
}

// perToken returns the time in s between the tokens of a request, on average.
func (p *pod) perToken() float64 { return p.running / p.generated }

// noteSlow notes which servers are slower than their peers at equal load.
func (m *Measured) noteSlow() {
	slow := m.slownessOf(m.pods)
	for i, off := range slow {
		p := &m.pods[i]
		if more := math.Exp(off) - 1; more > slowPod && more > slowContrast*p.off {
			m.Settings.addNote("%s is slow: %.1f ms between the tokens of a request, %+.0f %% to its peers at equal load", p.name, 1000*p.perToken(), 100*more)
		}
	}
}

// addPods adds what the logs of servers say of all of them, beside the records of the replay: the hit rate and the share
// of the generated tokens of each, those with most first.
func (c *Compared) addPods(all []pod, records []collector.Record) {
	total := 0.0
	for i := range all {
		total += all[i].served
	}
	if !slices.ContainsFunc(c.Sides, func(s Side) bool { return s.Name == hitRateName }) {
		c.addPodHits(all, records)
	}
	if len(all) < 2 || total == 0 {
		return
	}
	outputs := 0
	byWorker := map[int]int{}
	for i := range records {
		r := &records[i]
		outputs += int(r.OutputTokens)
		byWorker[int(r.Worker)] += int(r.OutputTokens)
	}
	var simulated []int
	for _, tokens := range byWorker {
		simulated = append(simulated, tokens)
	}
	slices.SortFunc(simulated, func(a, b int) int { return cmp.Compare(b, a) })
	most := slices.Clone(all)
	slices.SortStableFunc(most, func(a, b pod) int { return cmp.Compare(b.served, a.served) })
	for i := range most {
		s := Side{Name: "share of tokens, " + most[i].name, Measured: most[i].served / total}
		if i < len(simulated) {
			s.Simulated = float64(simulated[i]) / float64(outputs)
		}
		c.Sides = append(c.Sides, s)
	}
}

// mostApart is by how much the shares of a server may differ between a run and its replay.
const mostApart = 0.03

// Warnings returns which servers had a share of the work that is not that of the replay.
func (c *Compared) Warnings() (all []string) {
	for i := range c.Sides {
		if s := &c.Sides[i]; s.IsShare() && s.Name != hitRateName && math.Abs(float64(s.Off())) > mostApart {
			all = append(all, fmt.Sprintf("%s: %.1f %% measured, %.1f %% simulated: the replay routes requests differently", s.Name, 100*s.Measured, 100*s.Simulated))
		}
	}
	return all
}

// addPodHits adds the mean hit rate of servers, each of as many of the latest requests as it tells of.
func (c *Compared) addPodHits(all []pod, records []collector.Record) {
	var hits []float64
	latest := 0
	for i := range all {
		if !math.IsNaN(all[i].hit) {
			hits, latest = append(hits, all[i].hit), all[i].latest
		}
	}
	if len(hits) == 0 {
		return
	}
	byWorker := map[int][]*collector.Record{}
	workers := 0
	for i := range records {
		if r := &records[i]; r.Admitted() {
			byWorker[int(r.Worker)], workers = append(byWorker[int(r.Worker)], r), max(workers, int(r.Worker)+1)
		}
	}
	var simulated []float64
	for w := range workers {
		taken := byWorker[w]
		slices.SortStableFunc(taken, func(a, b *collector.Record) int { return cmp.Compare(a.Admit, b.Admit) })
		if latest > 0 {
			taken = taken[max(len(taken)-latest, 0):]
		}
		cached, prompts := 0, 0
		for _, r := range taken {
			cached, prompts = cached+int(r.Reused), prompts+int(r.InputTokens)
		}
		if prompts > 0 {
			simulated = append(simulated, float64(cached)/float64(prompts))
		}
	}
	c.Sides = append(c.Sides, Side{Name: hitRateName, Measured: meanOf(hits), Simulated: meanOf(simulated)})
}
