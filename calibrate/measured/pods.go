package measured

import (
	"bufio"
	"fmt"
	"math"
	"path/filepath"

	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/replay/deployment"
)

// Pod is what a server logged of itself while it served.
type Pod struct {
	Name      string
	lines     int
	load      float64   // requests that ran, on average; 0: not told
	off       float64   // standard deviation, as a share, of the time per token
	running   float64   // sums over its lines
	generated float64   // tokens a second
	Served    float64   // the same over all lines, those of its start and its end, too
	Steps     []float64 // generated tokens a second, by line
	Hit       float64   // share of prompt tokens found cached, of the latest requests; NaN: not told
	Latest    int       // how many requests these are at most; 0: all
	// asked are the arguments of vLLM with which it was started, by its own names; nil: not told.
	asked map[string]string
}

// slowPod is by how much a server's tokens take longer than those of its peers for it to be slow, and fewLines how many
// lines this requires. The start of a server is startSpan s or startLines lines: it compiles kernels, and then works
// off the queue.
const (
	slowPod     = 0.08
	FewLines    = 5
	startSpan   = ClientWarmUp + LogPeriod
	startLines  = 3
	lineScatter = 0.15
)

const secondsOfDay = 86400

// recentRequests is the number of requests of which vLLM logs the hit rate.
const recentRequests = 1000

// ReadPods reads the reports of the servers of a run, in logs or else in metrics, and notes the slow ones.
func (m *Run) readPods(dir string) (err error) {
	if m.Pods, err = ReadPods(dir); err != nil {
		return err
	}
	if len(m.Pods) == 0 {
		m.Pods = podsOf(m.Counted)
	}
	m.noteSlow()
	return nil
}

// ReadPods reads what the servers of a run logged every few seconds.
func ReadPods(dir string) ([]Pod, error) {
	logs, err := findLogs(dir)
	if err != nil {
		return nil, err
	}
	var all []Pod
	form := newPodLines()
	for _, path := range logs {
		f, err := scan.OpenPacked(path)
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
			p.Hit, p.Latest = prompts[0]/prompts[1], 0
		}
		all = append(all, p)
	}
	return all, nil
}

// newPod adds up the lines of a server. Those of its start do not count, nor the last one, while it empties, nor those
// in which it had no work. The hit rate is that of the last line: each is one of the requests before it.
func newPod(name string, rows []podRow) Pod {
	p := Pod{Name: name, Hit: math.NaN(), Latest: recentRequests}
	var busy []podRow
	for _, r := range rows {
		p.Served += r.served
		if !math.IsNaN(r.hit) {
			p.Hit = r.hit
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
			p.Steps = append(p.Steps, r.generated)
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
func (p *Pod) perToken() float64 { return p.running / p.generated }

// noteSlow notes which servers are slower than their peers at equal load.
func (m *Run) noteSlow() {
	slow := m.slownessOf(m.Pods)
	for i, off := range slow {
		p := &m.Pods[i]
		if more := math.Exp(off) - 1; more > slowPod && more > slowContrast*p.off {
			m.Settings.AddNote("%s is slow: %.1f ms between the tokens of a request, %+.0f %% to its peers at equal load", p.Name, 1000*p.perToken(), 100*more)
		}
	}
}

// LogPeriod is the time in s between two lines of a server's log.
const LogPeriod = 10
