package calibrate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// ReadTimes reads the requests of a run as Read does, whatever its server is and whether
// or not meta.json is there. What a simulated scheduler does not do is in the notes.
func ReadTimes(dir string) (*Measured, error) { return ReadTimesOf(dir, 0) }

// ReadTimesOf reads them as ReadTimes does; inFlight, when not 0, is how many requests a closed loop had at once.
func ReadTimesOf(dir string, inFlight int) (*Measured, error) {
	m, dir, err := openRun(dir, inFlight)
	if err != nil {
		return nil, err
	}
	if m.counted, err = readCounted(dir); err != nil {
		return nil, err
	}
	m.Settings, err = readServer(dir, toldByMetrics(m.counted))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	m.Settings.Router = findRouter(dir)
	m.Settings.Notes = nil
	for _, text := range m.Settings.refusals {
		m.Settings.addNote("not simulated: %s", text)
	}
	m.alignClocks()
	if m.Client {
		m.Settings.addNote("%s", wayNotTold)
	}
	m.noteLeft()
	m.Settings.noteCounted(m.counted, len(m.Requests)-m.Lead)
	if err := m.readPods(dir); err != nil {
		return nil, err
	}
	m.findSpeeds(0)
	return m, nil
}

// wayNotTold is what is assumed of a run that a client measured unless a profile tells its way.
const wayNotTold = "times are those of a client: the way to the server and back is not simulated"

// AddWay adds what a profile says of the way between client and engine to the times of replays
// that the run is held to, where it was a client that measured it.
func (m *Measured) AddWay(w *timing.Way) {
	if w == nil || !m.Client {
		return
	}
	m.way = *w
	m.Settings.Notes = slices.DeleteFunc(m.Settings.Notes, func(n string) bool { return n == wayNotTold })
	m.Settings.addNote("times are those of a client: %.1f ms before the first token and %.3f ms per further one are added, as the profile has them", 1000*w.First, 1000*w.Token)
}

// freshTokens is the number of tokens that an id stands for where no two prompts begin
// alike.
const freshTokens = 512

// WriteTrace writes the requests at their arrivals as a Mooncake trace, and returns how
// many tokens its ids stand for. Without prompts none begins like another.
func (m *Measured) WriteTrace(w io.Writer, p *Prompts) (blockTokens int, err error) {
	blockTokens = freshTokens
	if p != nil {
		blockTokens = p.BlockTokens
		if err := p.check(m.Requests); err != nil {
			return 0, err
		}
	}
	out := bufio.NewWriter(w)
	lines, next := json.NewEncoder(out), uint64(0)
	for i := range m.Requests {
		r := &m.Requests[i]
		var ids []uint64
		if p == nil {
			for k := 0; k < r.Input; k += freshTokens {
				ids = append(ids, next)
				next++
			}
		} else {
			ids = p.ids[r.Place]
		}
		line := map[string]any{"timestamp": 1000 * r.Arrival, "input_length": r.Input, "output_length": r.Output, "hash_ids": ids}
		m.addLane(line, r)
		if r.Class != "" {
			line["priority"] = priorityOf(r.Class)
		}
		if err := lines.Encode(line); err != nil {
			return 0, err
		}
	}
	return blockTokens, out.Flush()
}

// priorityOf returns the priority of a class of service, the least for the most urgent.
func priorityOf(class string) int {
	switch class {
	case "critical":
		return 0
	case "sheddable", "batch", "background":
		return 2
	}
	return 1
}

// Judged is how far a replay is from what was measured of a set of requests.
type Judged struct {
	Set    string   `json:"judged_on"`
	Errors []Errors `json:"errors"` // by metric
}

// Judge compares a replay of the whole run, by its trace, with what was measured: all
// requests, and those that the server admitted at once and the others where that is known.
func (m *Measured) Judge(result *harness.Result) ([]Judged, error) {
	out, err := m.outcomeOf(result)
	if err != nil {
		return nil, err
	}
	if m.untimed {
		return m.judgeCounted(result)
	}
	parts, _ := splitParts(m, 0)
	all := Judged{m.nameAll(), judgeOutcome(m, parts[0].chosen, out)}
	var gaps []float64
	for i := range m.Requests {
		gaps = append(gaps, m.Requests[i].gaps...)
	}
	if len(gaps) > 0 {
		all.Errors = append(all.Errors, judgeGaps(gaps, &result.Report.ITL, &all.Errors[1]))
	}
	sets := []Judged{all}
	if warm := parts[0].withoutWarmUp(m); m.Client && len(warm) < len(parts[0].chosen) {
		sets = append(sets, Judged{fmt.Sprintf("all from %d s on", clientWarmUp), judgeOutcome(m, warm, out)})
	}
	if warm := parts[0].withoutWarmUp(m); m.Client {
		if s := m.spellOf(warm, out); s.more > 0 {
			sets = append(sets, Judged{"all but " + s.String(), judgeOutcome(m, s.leave(m, parts[0].chosen), out)})
		}
	}
	for _, class := range m.classes() {
		sets = append(sets, Judged{class, judgeOutcome(m, m.ofClass(class), out)})
	}
	s := splitBySaturation(m, out)
	if len(s.quick) > 0 && len(s.slow) > 0 {
		sets = append(sets, Judged{s.nameOf("at once"), judgeOutcome(m, s.quick, out)}, Judged{s.nameOf("queued"), judgeOutcome(m, s.slow, out)})
	}
	return sets, nil
}

// classes returns the classes of service of the requests, none where there is only one.
func (m *Measured) classes() []string {
	var all []string
	for i := m.judgedFrom(); i < len(m.Requests); i++ {
		if class := m.Requests[i].Class; !slices.Contains(all, class) {
			all = append(all, class)
		}
	}
	slices.Sort(all)
	if len(all) < 2 {
		return nil
	}
	return all
}

// ofClass returns the requests of a class.
func (m *Measured) ofClass(class string) (chosen []int) {
	for i := m.judgedFrom(); i < len(m.Requests); i++ {
		if m.Requests[i].Class == class && !m.Requests[i].cut {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// judgeGaps compares the times between tokens, of all requests together. The mean of a
// request's gaps is its TPOT.
func judgeGaps(measured []float64, simulated *collector.Distribution, tpot *Errors) Errors {
	is := collector.Describe(measured)
	off := func(ms, s float64) float64 { return ms/1000/s - 1 }
	return Errors{
		Metric: "ITL", Requests: tpot.Requests, Measured: is.Mean, Mean: off(simulated.Mean, is.Mean), P50: off(simulated.Median, is.Median),
		P90: off(simulated.P90, is.P90), P99: off(simulated.P99, is.P99), Each: tpot.Each,
	}
}

// FurthestMean returns the metric whose mean over all requests is furthest off.
func FurthestMean(sets []Judged) Errors {
	var worst Errors
	for _, e := range sets[0].Errors {
		if !(math.Abs(e.Mean) <= math.Abs(worst.Mean)) {
			worst = e
		}
	}
	return worst
}

// Flag is a setting by the name of the flag of a replay.
type Flag struct{ Name, Value string }

// Flags returns what is known of the server as flags.
func (s *Settings) Flags() []Flag {
	if s.Kind == "sglang" {
		return s.addCluster(slices.Clone(s.flags))
	}
	if s.MaxSeqs == 0 && s.Blocks == 0 { // there is no meta.json
		return s.addCluster(nil)
	}
	var all []Flag
	for _, f := range []struct {
		name         string
		value, usual int
	}{
		{"tp", s.TensorParallel, 1}, {"dp", s.DataParallel, 1}, {"num-gpu-blocks", s.Blocks, 0}, {"block-size", s.BlockTokens, 0},
		{"max-num-seqs", s.MaxSeqs, 0}, {"max-num-batched-tokens", s.MaxBatchedTokens, 0},
	} {
		if f.value > f.usual {
			all = append(all, Flag{f.name, fmt.Sprint(f.value)})
		}
	}
	if s.Version != "" {
		all = append(all, Flag{"scheduler-profile", vllm.RulesName(s.Version)})
	}
	all = append(s.addCluster(all), Flag{"enable-prefix-caching", fmt.Sprint(s.PrefixCaching)}, Flag{"enable-chunked-prefill", fmt.Sprint(s.ChunkedPrefill)})
	return append(all, s.flags...)
}

// NoteUnapplied notes the settings of the run that do not apply to its replay: those that a replay does not have, and
// flags that it cannot take.
func (m *Measured) NoteUnapplied(flags []string) {
	all := append(slices.Clone(m.Settings.unapplied), flags...)
	text := "settings of the run that do not apply to the replay: " + strings.Join(all, ", ")
	if len(all) > 0 && !slices.Contains(m.Settings.Notes, text) {
		m.Settings.addNote("%s", text)
	}
}

// addCluster adds the flags that say how many servers there are and what is in front of them.
func (s *Settings) addCluster(all []Flag) []Flag {
	if s.Pods > 1 {
		all = append(all, Flag{"workers", fmt.Sprint(s.Pods)})
	}
	if s.Router != "" {
		all = append(all, Flag{"endpoint-picker", s.Router})
	}
	return all
}
