// Package explain shows why a request took as long as it did: its ledger, and
// the requests that held it up most. docs/explain.md defines both.
//
// Read explain.go (which request is meant), blame.go (who held it up), then
// text.go.
package explain

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/requests"
)

// Run is a recorded run as far as it is asked about.
type Run struct {
	Trace string // the trace's name; "": the workload was made up
	Rows  []requests.Row
	Log   *ledger.Log // nil: nobody noted who computed prompts when
}

// Find is the index of the request that name stands for: its id, FILE:LINE of
// the trace, or the name of its session with #TURN.
func (r *Run) Find(name string) (int, error) {
	if id, err := strconv.Atoi(name); err == nil {
		if id < 0 || id >= len(r.Rows) {
			return 0, fmt.Errorf("request %d: the run has requests 0 to %d", id, len(r.Rows)-1)
		}
		return id, nil
	}
	if at := strings.LastIndexByte(name, ':'); at >= 0 {
		if line, err := strconv.Atoi(name[at+1:]); err == nil {
			return r.onLine(name[:at], line)
		}
	}
	if at := strings.LastIndexByte(name, '#'); at >= 0 {
		if turn, err := strconv.Atoi(name[at+1:]); err == nil {
			return r.inSession(name[:at], turn)
		}
	}
	return 0, fmt.Errorf("%s: want the id of a request, FILE:LINE of the trace, SESSION#TURN or slowest", name)
}

func (r *Run) onLine(file string, line int) (int, error) {
	if file != "" && filepath.Base(file) != filepath.Base(r.Trace) {
		return 0, fmt.Errorf("%s:%d: the run replayed %s", file, line, r.Trace)
	}
	for i := range r.Rows {
		if int(r.Rows[i].Line) == line {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s:%d: no request of the run comes from this line", file, line)
}

func (r *Run) inSession(session string, turn int) (int, error) {
	for i := range r.Rows {
		if r.Rows[i].Session == session && r.Rows[i].Turn == turn {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s#%d: the run has no such turn", session, turn)
}

// Slowest are the indexes of the n requests with the largest end-to-end
// latency, the slowest first; of equals the one that arrived first.
func (r *Run) Slowest(n int) []int {
	var all []int
	for i := range r.Rows {
		if r.Rows[i].E2E.Known() {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(r.Rows[b].E2E, r.Rows[a].E2E) })
	return all[:min(n, len(all))]
}
