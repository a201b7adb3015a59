package calibrate

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
)

// pod is what a server logged of itself while it served.
type pod struct {
	name      string
	lines     int
	load      float64   // requests that ran, on average; 0: not told
	off       float64   // standard deviation, as a share, of the time per token
	running   float64   // sums over its lines
	generated float64   // tokens a second
	hits      []float64 // shares of prompt tokens found cached, of the latest requests
}

// slowPod is by how much a server's tokens take longer than those of its peers where it is
// said to be slow, and fewLines how many lines it takes to say so.
const (
	slowPod  = 0.08
	fewLines = 5
)

// readPods reads what the servers of a run say of themselves, in logs or else in metrics, and
// notes who is slow.
func (m *Measured) readPods(dir string) (err error) {
	if m.pods, err = readPods(dir); err != nil {
		return err
	}
	if len(m.pods) == 0 {
		m.pods = podsOf(m.counted)
	}
	m.Settings.noteSlow(m.pods)
	return nil
}

// readPods reads what the servers of a run logged every few seconds. The first and the last
// lines, while they fill and empty, do not count.
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
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if row, ok := form.read(lines.Text(), &prompts); ok {
				rows = append(rows, row)
			}
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		p := newPod(filepath.Base(path), rows)
		if prompts[1] > 0 {
			p.hits = []float64{prompts[0] / prompts[1]}
		}
		all = append(all, p)
	}
	return all, nil
}

// newPod adds up the lines of a server.
func newPod(name string, rows []podRow) pod {
	p := pod{name: name}
	for i := 2; i < len(rows)-1; i++ {
		p.lines++
		p.generated, p.running = p.generated+rows[i].generated, p.running+rows[i].running
		if !math.IsNaN(rows[i].hit) {
			p.hits = append(p.hits, rows[i].hit)
		}
	}
	if p.lines > 0 {
		p.load = p.running / float64(p.lines)
		p.off = ratioScatter(p.lines, p.perToken(), func(i int) (float64, float64) { return rows[i+2].running, rows[i+2].generated })
	}
	return p
}

// perToken returns the time in s between the tokens of a request, on average.
func (p *pod) perToken() float64 { return p.running / p.generated }

// noteSlow notes which servers are slower than their peers.
func (s *Settings) noteSlow(all []pod) {
	var times []float64
	for i := range all {
		if all[i].lines >= fewLines && all[i].generated > 0 {
			times = append(times, all[i].perToken())
		}
	}
	if len(times) < 3 {
		return
	}
	usual := quantileOf(times, 0.5)
	for i := range all {
		if p := &all[i]; p.lines >= fewLines && p.perToken() > (1+slowPod)*usual {
			s.addNote("%s is slow: %.1f ms between the tokens of a request, %+.0f %% to the median of all", p.name, 1000*p.perToken(), 100*(p.perToken()/usual-1))
		}
	}
}

// addPods adds what the logs of servers say of all of them: the hit rate and the share of the
// generated tokens of each, those with most first.
func (c *Compared) addPods(all []pod) {
	var hits []float64
	total := 0.0
	for i := range all {
		hits, total = append(hits, all[i].hits...), total+all[i].generated
	}
	if len(all) < 2 || total == 0 {
		return
	}
	cached, prompts, outputs := 0, 0, 0
	byWorker := map[int]int{}
	for i := range c.Requests {
		b := &c.Requests[i]
		cached, prompts, outputs = cached+b.Cached[1], prompts+b.InputTokens, outputs+b.OutputTokens
		byWorker[b.Worker] += b.OutputTokens
	}
	if !slices.ContainsFunc(c.Sides, func(s Side) bool { return s.Name == hitRateName }) && len(hits) > 0 {
		c.Sides = append(c.Sides, Side{Name: hitRateName, Measured: meanOf(hits), Simulated: float64(cached) / float64(prompts)})
	}
	var simulated []int
	for _, tokens := range byWorker {
		simulated = append(simulated, tokens)
	}
	slices.SortFunc(simulated, func(a, b int) int { return cmp.Compare(b, a) })
	most := slices.Clone(all)
	slices.SortStableFunc(most, func(a, b pod) int { return cmp.Compare(b.generated, a.generated) })
	for i := range most {
		s := Side{Name: "share of tokens, " + most[i].name, Measured: most[i].generated / total}
		if i < len(simulated) {
			s.Simulated = float64(simulated[i]) / float64(outputs)
		}
		c.Sides = append(c.Sides, s)
	}
}
