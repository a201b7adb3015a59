package watch

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Size is the size of a terminal, in columns and lines.
type Size struct{ Columns, Lines int }

// Colors of a row.
const (
	plain  = ""
	faint  = "\x1b[2m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

// Frame returns the state of the replay as lines that fit the terminal. ran is the real time since the start, from
// which the remaining time is estimated. colors reports whether colors are allowed.
func (v *View) Frame(size Size, ran time.Duration, colors bool) []string {
	width := max(1, size.Columns-1) // in some terminals a line of the full width wraps
	lines := append([]string{v.bar(width, ran)}, wrapParts(v.parts(), width)...)
	if room := size.Lines - 1 - len(lines); room >= 3 { // space for a header and a worker
		lines = append(lines, v.table(width, room, colors)...)
	}
	lines = lines[:min(len(lines), max(1, size.Lines-1))]
	for i, line := range lines {
		if !strings.HasSuffix(line, reset) {
			lines[i] = cutLine(line, width)
		}
	}
	return lines
}

// Line returns the state of the replay in one line.
func (v *View) Line() string {
	return fmt.Sprintf("at %s: %s, %s", formatTime(v.instant()), v.countDone(), strings.Join(v.parts(), ", "))
}

// EndLine returns the final state of the replay in one line.
func (v *View) EndLine() string {
	text := fmt.Sprintf("ended at %s%02d: %s", formatTime(v.clock), int64(v.clock)%100, v.countDone()) // in ms
	if v.inFlight > 0 {
		text += fmt.Sprintf(", %d left in flight", v.inFlight)
	}
	return text
}

// countDone describes the number of finished requests.
func (v *View) countDone() string {
	if v.total == 0 {
		return fmt.Sprintf("%d requests done", v.done)
	}
	return fmt.Sprintf("%d/%d requests done (%d%%)", v.done, v.total, v.percent())
}

// percent returns the finished share in percent; 100 only if all requests are finished.
func (v *View) percent() int { return int(100 * int64(min(v.done, v.total)) / int64(max(v.total, 1))) }

// bar returns the line with the time and the finished share.
func (v *View) bar(width int, ran time.Duration) string {
	left := formatTime(v.instant()) + " "
	if v.total == 0 {
		return left + " " + v.countDone()
	}
	share := float64(min(v.done, v.total)) / float64(v.total)
	right := fmt.Sprintf(" %3d%% %d/%d", v.percent(), v.done, v.total)
	if v.done > 0 && v.done < v.total && width >= terminal.Width/2+len(" 59m59s left") {
		rest := time.Duration(float64(ran) * (1 - share) / share)
		right += fmt.Sprintf(" %v left", rest.Round(time.Second))
	}
	room := width - len(left) - len(right) - 2
	if room < 1 {
		return left + strings.TrimLeft(right, " ")
	}
	full := int(share * float64(room))
	return left + "[" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "]" + right
}

// parts returns the entries of the cluster, or of a worker that is replayed separately.
func (v *View) parts() []string {
	if v.current == nil {
		return []string{fmt.Sprintf("in flight %d", v.inFlight), "no pass yet"}
	}
	t := v.sum()
	var all []string
	if v.apart {
		list := v.list()
		begun := 0
		for _, w := range list {
			begun += min(w.passes, 1)
		}
		all = append(all, fmt.Sprintf("one worker after another: %s (%d of %d)", v.nameOf(v.current), begun, len(list)))
	} else {
		all = append(all, fmt.Sprintf("in flight %d", v.inFlight))
	}
	all = append(all, fmt.Sprintf("running %d", t.running), fmt.Sprintf("waiting %d", t.waiting))
	if rest := v.inFlight - t.running - t.waiting; rest > 0 && !v.apart {
		all = append(all, fmt.Sprintf("elsewhere %d", rest)) // in a router queue, between pools, or new on a worker
	}
	all = append(all, formatRate(t.requests)+" req/s", formatRate(t.outputs)+" tok/s")
	if t.blocks > 0 {
		all = append(all, "KV "+formatShare(t.held, t.blocks))
	}
	return all
}

func (v *View) nameOf(w *worker) string {
	if w.stage == scheduler.Aggregated {
		return strconv.Itoa(int(w.id))
	}
	return fmt.Sprintf("%v %d", w.stage, w.id)
}

// table returns a row for each worker. If there is no room, it returns the busiest workers and the number of all
// other workers.
func (v *View) table(width, room int, colors bool) []string {
	shown, rest := v.list(), []*worker(nil)
	if rows := room - 2; len(shown) > rows {
		shown, rest = v.pickRows(shown, max(1, rows-1))
	}
	all := v.tabulate(shown)
	all.Fit(width)
	lines := strings.Split(strings.TrimSuffix(all.Text(), "\n"), "\n")
	heads := len(lines) - len(shown)
	for i, w := range shown {
		if color := colorOf(w); colors && color != plain {
			lines[heads+i] = color + cutLine(lines[heads+i], width) + reset
		}
	}
	if len(rest) > 0 {
		var t totals
		for _, w := range rest {
			t.add(v, w)
		}
		lines = append(lines, fmt.Sprintf("  and %d more: running %d, waiting %d", len(rest), t.running, t.waiting))
	}
	return lines
}

// pickRows returns this number of workers, the busiest of each stage in turn, and the remaining workers. The lists
// shown and rest are in the original order.
func (v *View) pickRows(all []*worker, rows int) (shown, rest []*worker) {
	var stages [2][]*worker
	for _, w := range all {
		stages[w.stage.Stage()] = append(stages[w.stage.Stage()], w)
	}
	picked := map[*worker]bool{}
	for i := range stages {
		stable.Sort(stages[i], func(a, b *worker) int { return v.rank(b) - v.rank(a) })
	}
	for at := 0; len(picked) < min(rows, len(all)); at++ {
		for _, byLoad := range stages {
			if at < len(byLoad) && len(picked) < rows {
				picked[byLoad[at]] = true
			}
		}
	}
	for _, w := range all {
		if picked[w] {
			shown = append(shown, w)
		} else {
			rest = append(rest, w)
		}
	}
	return shown, rest
}

// rank returns the priority of a worker for being shown.
func (v *View) rank(w *worker) int {
	if v.apart && w == v.current {
		return 1 << 30
	}
	return w.running + w.waiting
}

// colorOf returns the color of a worker's row: bright for a worker with waiting requests, dim for an idle worker.
func colorOf(w *worker) string {
	switch {
	case w.waiting > 0:
		return yellow
	case w.running == 0:
		return faint
	}
	return plain
}

// tabulate returns a row with the state of each worker.
func (v *View) tabulate(all []*worker) *table.Table {
	t := &table.Table{Columns: []table.Column{
		{Name: "worker", Left: true}, {Above: "last", Name: "pass", Rank: 4}, {Name: "running"}, {Name: "waiting", Rank: 1},
		{Name: "req/s", Rank: 5}, {Above: "prompt", Name: "tok/s", Rank: 6}, {Above: "output", Name: "tok/s", Rank: 3}, {Name: "KV", Rank: 2},
	}}
	for _, w := range all {
		row := []string{v.nameOf(w), "-", "-", "-", "-", "-", "-", "-"}
		if w.passes > 0 {
			now := v.until(w)
			row = []string{
				v.nameOf(w), formatTime(w.at), strconv.Itoa(w.running), strconv.Itoa(w.waiting), formatRate(w.requests.perSecond(w, now)),
				formatRate(w.prompts.perSecond(w, now)), formatRate(w.outputs.perSecond(w, now)), formatShare(w.held, w.blocks),
			}
		}
		if w.stage == scheduler.Prefill {
			row[6] = "-" // no answer
		}
		if v.apart && w != v.current {
			row[4], row[5], row[6] = "-", "-", "-" // it is over
		}
		t.Add(row...)
	}
	return t
}

// wrapParts joins as many parts as fit into a line.
func wrapParts(parts []string, width int) []string {
	lines := []string{parts[0]}
	for _, part := range parts[1:] {
		if last := &lines[len(lines)-1]; utf8.RuneCountInString(*last)+2+len(part) <= width {
			*last += "  " + part
		} else {
			lines = append(lines, part)
		}
	}
	return lines
}

// cutLine returns a line, shortened if it is too wide.
func cutLine(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width])
}

// formatTime returns a time as hours, minutes and seconds.
func formatTime(at sim.Time) string {
	tenths := int64(at / 100)
	return fmt.Sprintf("%d:%02d:%02d.%d", tenths/36000, tenths/600%60, tenths/10%60, tenths%10)
}

// formatRate formats a number, with one decimal place if it is small.
func formatRate(v float64) string {
	if v < 99.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// formatShare returns part divided by whole, in percent.
func formatShare(part, whole int) string {
	if whole == 0 {
		return "-"
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 0, 64) + "%"
}
