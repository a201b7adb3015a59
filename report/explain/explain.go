// Package explain explains the latency of a request: its ledger, and the requests that delayed it most.
// docs/explain.md defines both.
//
// Read explain.go (the selection of the request, and the text), then blame.go (the delaying requests).
package explain

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Run is the part of a recorded run that explanations use.
type Run struct {
	Trace string // the trace's name; "": the workload was made up
	Rows  []requests.Row
	Log   *ledger.Log // nil: unknown which requests computed prompts when
	Kinds []string    // kinds of the workers by id, in a mix; nil if all workers are equal
	// Times are pass times by measured operators, by stage or kind of worker. Stages with drafts are left out, since
	// drafts take a part of the pass time.
	Times map[string]timing.Source
}

// Find returns the index of a request by its name: its id, FILE:LINE of the trace, or its session and #TURN.
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
	return 0, fmt.Errorf("%s: must be the id of a request, FILE:LINE of the trace, SESSION#TURN or slowest", name)
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

// Slowest returns the indexes of the n requests with the largest end-to-end latency, the slowest first. Equal
// latencies are ordered by arrival.
func (r *Run) Slowest(n int) []int {
	var all []int
	for i := range r.Rows {
		if r.Rows[i].E2E.Known() {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b int) int {
		if order := cmp.Compare(r.Rows[b].E2E, r.Rows[a].E2E); order != 0 {
			return order
		}
		return a - b
	})
	return all[:min(n, len(all))]
}

// most is the maximum number of listed requests that delayed a request.
const most = 5

// WriteText writes the explanation of the latency of request id.
func (r *Run) WriteText(w io.Writer, id int) error {
	out := bufio.NewWriter(w)
	row := &r.Rows[id]
	about := fmt.Sprintf("%d prompt tokens (%d reused), %d answer tokens, %s", row.Input, row.Reused, row.Tokens, r.whereText(row))
	fmt.Fprint(out, terminal.WrapText(r.requestTitle(id)+"\n"+about+"\n", 2)+"\n")
	gone := []string{collector.Rejected.String(), collector.Shed.String(), collector.Lost.String()}
	switch {
	case slices.Contains(gone, row.Outcome):
		fmt.Fprintf(out, "it was %s", row.Outcome)
		if row.RejectedBy != "" {
			fmt.Fprintf(out, " by %s", row.RejectedBy)
		}
		fmt.Fprintln(out)
	case !row.Finished():
		fmt.Fprintf(out, "it has not finished: %d of %d tokens\n", row.Tokens, row.Output)
	case !row.Explained():
		fmt.Fprintf(out, "the run was recorded without ledgers\n")
	default:
		writeLedger(out, row)
		operators, err := r.OperatorsOf(id)
		if err != nil {
			return err
		}
		for i := range operators {
			operators[i].write(out)
		}
		r.writeHolds(out, r.Blame(id))
	}
	return out.Flush()
}

// requestTitle returns the title of a request.
func (r *Run) requestTitle(id int) string {
	row := &r.Rows[id]
	text := fmt.Sprintf("request %d", row.ID)
	if row.Line.Known() && row.Line > 0 {
		text += fmt.Sprintf(", %s:%d", r.Trace, row.Line)
	}
	if row.Turn > 0 {
		text += fmt.Sprintf(", turn %d of session %s", row.Turn, row.Session)
	}
	return text
}

func (r *Run) whereText(row *requests.Row) string {
	if !row.Worker.Known() && !row.PrefillWorker.Known() {
		return "no worker"
	}
	text := fmt.Sprintf("worker %d", row.Worker)
	if kind := r.kindOf(row); kind != "" {
		text += " (" + kind + ")"
	}
	if row.PrefillWorker.Known() {
		text = fmt.Sprintf("prefill worker %d, decode worker %d", row.PrefillWorker, row.Worker)
	}
	if row.Preemptions > 0 {
		text += fmt.Sprintf(", preempted %d times", row.Preemptions)
	}
	return text
}

// kindOf returns the kind of a request's worker, "" if all workers are equal.
func (r *Run) kindOf(row *requests.Row) string {
	if !row.Worker.Known() || int(row.Worker) >= len(r.Kinds) {
		return ""
	}
	return r.Kinds[row.Worker]
}

func writeLedger(out *bufio.Writer, row *requests.Row) {
	fmt.Fprintf(out, "%-18s %14s %8s\n", "", "ms", "share")
	total := float64(row.E2E)
	for _, p := range ledger.Parts() {
		if ms := row.Parts[p]; ms.Known() {
			writePart(out, p.String(), float64(ms), total)
		}
	}
	writePart(out, "end to end", total, total)
}

// ShortLedger returns the parts of a request's ledger that are not 0, in one line; "" without a ledger.
func (r *Run) ShortLedger(id int) string {
	if id < 0 || id >= len(r.Rows) || !r.Rows[id].Explained() {
		return ""
	}
	var parts []string
	for _, p := range ledger.Parts() {
		if ms := float64(r.Rows[id].Parts[p]); ms >= 0.0005 {
			parts = append(parts, fmt.Sprintf("%v %.3f", p, ms))
		}
	}
	return r.whereText(&r.Rows[id]) + ": " + strings.Join(parts, ", ")
}

func writePart(out *bufio.Writer, name string, ms, total float64) {
	share := 0.0
	if total > 0 {
		share = 100 * ms / total
	}
	fmt.Fprintf(out, "%-18s %14.3f %6.1f %%\n", name, ms, share)
}

func (r *Run) writeHolds(out *bufio.Writer, holds []Hold) {
	if r.Log == nil {
		fmt.Fprintf(out, "\nprompts of other requests do not count: the run has no %s\n", ledger.WorkFile)
	}
	if len(holds) == 0 {
		fmt.Fprintf(out, "\nno request held it up\n")
		return
	}
	fmt.Fprintf(out, "\nheld up most by%26s %12s %12s %12s\n", "ms", "prompt", "ahead", "decode")
	for i := range holds[:min(most, len(holds))] {
		h := &holds[i]
		fmt.Fprintf(out, "%-28s %12.3f %12.3f %12.3f %12.3f\n", r.shortTitle(h.Request), h.Total(), h.Prefill, h.Ahead, h.Decode)
	}
	if rest := len(holds) - most; rest > 0 {
		sum := 0.0
		for i := range holds[most:] {
			sum += holds[most+i].Total()
		}
		fmt.Fprintf(out, "%-28s %12.3f\n", fmt.Sprintf("%d other requests", rest), sum)
	}
}

func (r *Run) shortTitle(id int) string {
	row := &r.Rows[id]
	text := fmt.Sprintf("request %d", row.ID)
	if row.Line.Known() && row.Line > 0 {
		text += fmt.Sprintf(" (line %d)", row.Line)
	}
	return text
}
