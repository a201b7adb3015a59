package measured

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// turnRow is a line of a benchmark with sessions in a closed loop. A line is one turn, and turns are in the order of
// completion.
type turnRow struct {
	Input  int      `json:"isl"`
	Output int      `json:"osl"`
	TTFT   *float64 `json:"ttft_ms"`
	E2E    *float64 `json:"e2e_ms"`
}

// turnNames returns the suffixes of files that may hold turns.
func turnNames() []string { return []string{".jsonl", ".jsonl.gz"} }

// holdsTurns reports whether a file holds turns without arrivals.
func holdsTurns(path string) bool {
	if !slices.ContainsFunc(turnNames(), func(end string) bool { return strings.HasSuffix(path, end) }) {
		return false
	}
	f, err := scan.OpenPacked(path)
	if err != nil {
		return false
	}
	defer f.Close()
	line, _ := bufio.NewReader(f).ReadBytes('\n') // a last line without a newline is also valid
	var row turnRow
	return json.Unmarshal(line, &row) == nil && row.Input > 0 && row.TTFT != nil && row.E2E != nil
}

// findTurns returns the files of a directory that hold turns, the least concurrency first.
func findTurns(dir string) (all []string) {
	files, _ := os.ReadDir(dir) // reading the run reports the error
	for _, f := range files {
		if path := filepath.Join(dir, f.Name()); !f.IsDir() && holdsTurns(path) {
			all = append(all, path)
		}
	}
	stable.Sort(all, func(a, b string) int { return cmp.Compare(readInFlight(a), readInFlight(b)) })
	return all
}

// bareName returns the name of a file of turns without its suffix.
func bareName(path string) string {
	name := filepath.Base(path)
	for _, end := range turnNames() {
		name = strings.TrimSuffix(name, end)
	}
	return name
}

// readInFlight returns the concurrency in the summary next to a file of turns, such as conc4.json for
// raw_conc4.jsonl, or 0 if there is none.
func readInFlight(path string) int {
	for _, name := range []string{bareName(path), strings.TrimPrefix(bareName(path), "raw_")} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), name+".json"))
		if err != nil {
			continue
		}
		var s struct {
			Concurrency    int `json:"concurrency"`
			MaxConcurrency int `json:"max_concurrency"`
		}
		if json.Unmarshal(text, &s) == nil && max(s.Concurrency, s.MaxConcurrency) > 0 {
			return max(s.Concurrency, s.MaxConcurrency)
		}
	}
	return 0
}

// readTurns reads a file of turns. The sessions and arrivals are unknown. readTurns derives the sessions and arrivals
// from the lengths, the times and the concurrency of the turns.
func (m *Run) readTurns(path string, inFlight int) error {
	m.Name, m.Client = bareName(path), true
	if m.InFlight = cmp.Or(inFlight, readInFlight(path)); m.InFlight == 0 {
		return fmt.Errorf("%s: the concurrency is unknown: requires concurrency in %s.json in the same folder, or --max-in-flight", path, strings.TrimPrefix(m.Name, "raw_"))
	}
	err := readLines(path, func(_ int, text []byte) error {
		var row turnRow
		if len(text) == 0 {
			return nil
		}
		if err := json.Unmarshal(text, &row); err != nil {
			return err
		}
		if row.Input < 1 || row.Output < 0 || row.TTFT == nil || row.E2E == nil || !(*row.TTFT >= 0 && *row.E2E >= *row.TTFT) || math.IsInf(*row.E2E, 0) {
			return errors.New("must have isl and osl in tokens, and ttft_ms and e2e_ms of at least that")
		}
		if row.Output == 0 {
			m.Failed++
			return nil
		}
		m.Requests = append(m.Requests, Request{
			ID: identifier(fmt.Sprint(len(m.Requests) + 1)), Place: len(m.Requests), Input: row.Input, Output: row.Output,
			First: *row.TTFT / 1000, Last: *row.E2E / 1000, Queued: math.NaN(), Scheduled: math.NaN(),
		})
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := checkCount(path, m.Requests); err != nil {
		return err
	}
	last := m.joinSessions(path)
	m.layLanes(last)
	return nil
}

// sessionBlock and the following constants are for the assignment of turns to sessions.
const (
	sessionBlock = 256  // tokens per id of the prompts
	freshTurn    = 1600 // tokens; the first turns of all sessions are shorter
	mostSessions = 64   // open sessions that are kept, at least
)

// shortestTurn returns the number of tokens in the shortest prompt.
func (m *Run) shortestTurn() int {
	return slices.MinFunc(m.Requests, func(a, b Request) int { return cmp.Compare(a.Input, b.Input) }).Input
}

// joinSessions sets the prompts of turns in the order of completion. joinSessions returns the place of the last turn
// that starts a session. The session of a turn is unknown. The turn is assumed to continue the open session with the
// longest prompt that is not longer than its own.
func (m *Run) joinSessions(path string) (last int) {
	type session struct {
		number uint64
		tokens int
	}
	var open []session // the session with the latest turn is last
	var sessions uint64
	m.Prompts = &Prompts{BlockTokens: sessionBlock, Path: path}
	shared := m.shortestTurn() / sessionBlock
	for place := range m.Requests {
		r := &m.Requests[place]
		best := -1
		for i := range open {
			if r.Input >= freshTurn && open[i].tokens <= r.Input && (best < 0 || open[i].tokens > open[best].tokens) {
				best = i
			}
		}
		s := session{number: sessions, tokens: r.Input}
		if best >= 0 {
			s.number = open[best].number
			open = slices.Delete(open, best, best+1)
		} else {
			sessions++
			last = place
		}
		open = append(open, s)
		open = open[max(0, len(open)-max(mostSessions, m.InFlight)):]
		var ids []uint64
		for i := 0; i*sessionBlock < r.Input; i++ {
			id := uint64(i)
			if i >= shared {
				id |= (1 + s.number) << 16
			}
			ids = append(ids, id)
		}
		m.Prompts.IDs, m.Prompts.Lengths = append(m.Prompts.IDs, ids), append(m.Prompts.Lengths, r.Input)
	}
	return last
}

// inFlightKey is the key of a closed loop's concurrency among known settings.
const inFlightKey = "max_in_flight"

// openRun reads the requests of a run and returns its directory. The path is a directory, a file of turns or the
// result of a load generator.
func openRun(path string, inFlight int) (m *Run, dir string, err error) {
	m = &Run{Name: filepath.Base(filepath.Clean(path))}
	if s, err := os.Stat(path); err == nil && !s.IsDir() {
		if !holdsTurns(path) {
			return m, filepath.Dir(path), m.readResult(path)
		}
		return m, filepath.Dir(path), m.readTurns(path, inFlight)
	}
	switch turns := findTurns(path); len(turns) {
	case 0:
		return m, path, m.readTimes(path)
	case 1:
		return m, path, m.readTurns(turns[0], inFlight)
	default:
		return nil, path, fmt.Errorf("%s: %d files of turns, must be one of them, as %s", path, len(turns), turns[0])
	}
}

// ListRuns returns the runs at paths. A directory with files of turns is replaced by these files.
func ListRuns(paths []string) (all []string) {
	for _, path := range paths {
		if turns := findTurns(path); len(turns) > 0 {
			all = append(all, turns...)
			continue
		}
		all = append(all, path)
	}
	return all
}

// layLanes assigns the requests of a closed loop to lanes. The requests are in the order of completion, and their
// times are relative to their arrival. In each lane, a request follows the previous one immediately, so the durations
// give the approximate starts. After the last first turn has started, no new session follows one that ends. Lanes
// then end evenly with the remaining requests.
func (m *Run) layLanes(last int) {
	all, n := m.Requests, len(m.Requests)
	begins, served := make([]float64, n), 0.0
	for i := range all {
		served += all[i].Last
		begins[i] = served/float64(m.InFlight) - all[i].Last
	}
	final := begins[last]
	stable.Sort(all, func(a, b Request) int { return cmp.Compare(begins[a.Place], begins[b.Place]) })
	var lanes heap.Heap[float64, int, int] // lanes by the instant at which they become free
	for k := range min(m.InFlight, n) {
		lanes.Push(0, k, k)
	}
	from := slices.IndexFunc(all, func(r Request) bool { return begins[r.Place] >= final })
	for i := range all {
		if from <= i {
			left := (m.InFlight*(n-i) + n - from - 1) / (n - from)
			for len(lanes) > max(left, 1) {
				lanes.Pop()
			}
		}
		l := lanes.Pop()
		r := &all[i]
		r.Lane, r.Arrival = l.Value+1, l.Key
		r.First, r.Last = r.Arrival+r.First, r.Arrival+r.Last
		lanes.Push(r.Last, l.Tie, l.Value)
	}
}
