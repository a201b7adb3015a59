package measured

import (
	"bufio"
	"fmt"
	"math"
	"path/filepath"

	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/replay/deployment"
)

// Pod holds the data in the log of a server while it served requests.
type Pod struct {
	Name      string
	lines     int
	load      float64   // average number of running requests; 0: unknown
	off       float64   // standard deviation of the time per token, as a share
	running   float64   // sum over the log lines of the server
	generated float64   // sum of the tokens per second
	Served    float64   // the same over all lines, including the start and the end
	Steps     []float64 // generated tokens per second, by line
	Hit       float64   // share of cached prompt tokens in the latest requests; NaN: unknown
	Latest    int       // largest number of requests that Hit covers; 0: all requests
	// asked holds the arguments of vLLM in its start command, by its own names. asked is nil if the command is
	// unknown.
	asked map[string]string
}

// slowPod is the share by which the tokens of a slow server take longer than those of its peers. FewLines is the
// number of log lines that this requires. The start of a server is startSpan s or startLines lines. In this time, a
// server compiles kernels and then processes its queue.
const (
	slowPod     = 0.08
	FewLines    = 5
	startSpan   = ClientWarmUp + LogPeriod
	startLines  = 3
	lineScatter = 0.15
)

const secondsOfDay = 86400

// recentRequests is the number of latest requests in the hit rate that vLLM logs.
const recentRequests = 1000

// readPods reads the reports of the servers of a run in their logs, or in their metrics if there are no logs.
// readPods adds notes about slow servers.
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

// ReadPods reads the regular log lines of the servers of a run.
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

// newPod adds up the lines of a server. newPod omits lines of the start, the last line, and lines without work. The
// hit rate is the value in the last line, which covers all earlier requests.
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

// countStart returns the number of lines in the start of a server. countStart uses the times of the lines or, if the
// times are unknown, startLines.
func countStart(busy []podRow) int {
	if n := len(busy); n > 0 && busy[0].at == busy[n-1].at { // all lines have the same time
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

// perToken returns the average time in s between the tokens of a request.
func (p *Pod) perToken() float64 { return p.running / p.generated }

// noteSlow adds notes about servers that are slower than their peers at equal load.
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
