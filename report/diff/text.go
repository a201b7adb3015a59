package diff

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/report/requests"
)

func msText(t requests.MS) string {
	if !t.Known() {
		return "never"
	}
	return "at " + strconv.FormatFloat(float64(t), 'f', -1, 64) + " ms"
}

// WriteJSON writes d as JSON.
func (d *Diff) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

// WriteText writes d as text.
func (d *Diff) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "A: %s\nB: %s\n", d.A, d.B)
	if len(d.Settings) > 0 {
		b.WriteString("\nSettings that differ:\n")
		writeSettings(&b, foldSettings(d.Settings))
	}
	fmt.Fprintf(&b, "\nMetrics: %d of %d differ\n", len(d.Metrics), d.Compared)
	if len(d.Metrics) > 0 {
		b.WriteString(formatMetrics(d.Metrics))
	}
	if d.Requests != nil {
		d.Requests.writeText(&b, d.passText())
	}
	if d.Same {
		b.WriteString("\nThe runs are the same.\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writeSettings writes one line for each setting, or three lines if one is too wide.
func writeSettings(b *bytes.Buffer, settings []Setting) {
	key, a := 0, 0
	for _, s := range settings {
		if utf8.RuneCountInString(s.Key+orNone(s.A)+orNone(s.B)) <= terminal.Width-6 {
			key, a = max(key, utf8.RuneCountInString(s.Key)), max(a, utf8.RuneCountInString(orNone(s.A)))
		}
	}
	for _, s := range settings {
		line := fmt.Sprintf("  %-*s  %-*s  %s", key, s.Key, a, orNone(s.A), orNone(s.B))
		if utf8.RuneCountInString(line) > terminal.Width {
			line = terminal.WrapText(fmt.Sprintf("  %s\n    A: %s\n    B: %s", s.Key, orNone(s.A), orNone(s.B)), 3)
		}
		b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
	}
}

// formatMetrics returns a row for each metric.
func formatMetrics(metrics []Metric) string {
	all := table.New("metric", "A", "B", "change", "%")
	for _, m := range metrics {
		share := ""
		if m.A != 0 {
			share = fmt.Sprintf("%+.*f", terminal.Digits(m.Share), m.Share)
		}
		digits := digitsOf(max(math.Abs(m.A), math.Abs(m.B)))
		all.Add(m.Key, fmt.Sprintf("%.*f", digits, m.A), fmt.Sprintf("%.*f", digits, m.B), changeText(m.Change, digits), share)
	}
	return all.Text()
}

// digitsOf returns the number of decimal places with which a value is shown.
func digitsOf(v float64) int {
	switch {
	case v >= 100_000:
		return 0
	case v >= 1000:
		return 1
	}
	return 3
}

// changeText formats a difference with this number of decimal places. A smaller difference gets more decimal places.
func changeText(by float64, digits int) string {
	if math.Abs(by) < 0.5*math.Pow10(-digits) {
		return fmt.Sprintf("%+.1e", by)
	}
	return fmt.Sprintf("%+.*f", digits, by)
}

// foldSettings joins settings that only one side has and that have a common prefix, such as the settings of a router,
// into one line.
func foldSettings(settings []Setting) []Setting {
	var all []Setting
	for i := 0; i < len(settings); {
		s := settings[i]
		group, _, _ := strings.Cut(s.Key, ".")
		n := 0
		for _, o := range settings[i:] {
			if other, _, nested := strings.Cut(o.Key, "."); !nested || other != group || (o.A == "") != (s.A == "") || (o.B == "") != (s.B == "") {
				break
			}
			n++
		}
		if n < 2 || s.A != "" && s.B != "" {
			all = append(all, s)
			i++
			continue
		}
		f, values := Setting{Key: group}, fmt.Sprintf("(%d settings)", n)
		if s.A != "" {
			f.A = values
		} else {
			f.B = values
		}
		all = append(all, f)
		i += n
	}
	return all
}

// passText returns a line about the first pass that differs.
func (d *Diff) passText() string {
	switch {
	case d.FirstPass != nil:
		return "First pass to differ: " + d.FirstPass.String()
	case d.NoPass != "":
		return "First pass to differ: not known: " + d.NoPass
	}
	return ""
}

// writeText writes r. pass is a line about the first pass that differs, or "".
func (r *Requests) writeText(b *bytes.Buffer, pass string) {
	fmt.Fprintf(b, "\nRequests: %d in both, %d of them moved; %d only in A, %d only in B\n", r.Joined, r.Moved, r.OnlyA, r.OnlyB)
	if p := r.Parting; p != nil {
		b.WriteString(terminal.WrapText(fmt.Sprintf("First difference at %s ms: %s of %v: A %s, B %s\n",
			strconv.FormatFloat(p.AtMS, 'f', -1, 64), p.What, p.Request, p.A, p.B), 2))
	}
	if pass != "" {
		b.WriteString(terminal.WrapText(pass+"\n", 2))
	}
	if r.Paired != nil {
		r.Paired.writeText(b)
	}
	if len(r.Most) == 0 {
		return
	}
	b.WriteString("Moved most, by end-to-end latency:\n")
	all := table.New("id", "session", "turn", "E2E A", "E2E B", "change", "TTFT A", "TTFT B", "workers")
	all.Columns[1].Rank, all.Columns[2].Rank = 2, 1 // the id has it, too
	for _, m := range r.Most {
		change := ""
		if m.E2EA != nil && m.E2EB != nil {
			change = fmt.Sprintf("%+.2f", *m.E2EB-*m.E2EA)
		}
		workers := strconv.Itoa(m.WorkerA)
		if m.WorkerB != m.WorkerA {
			workers += " -> " + strconv.Itoa(m.WorkerB)
		}
		all.Add(fmt.Sprint(m.Request.ID), m.Request.Session, fmt.Sprint(m.Request.Turn),
			twoDecimals(m.E2EA), twoDecimals(m.E2EB), change, twoDecimals(m.TTFTA), twoDecimals(m.TTFTB), workers)
	}
	all.Fit(terminal.Width)
	b.WriteString(all.Text())
}

func twoDecimals(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// writeText writes p: the changes with their intervals.
func (p *Paired) writeText(b *bytes.Buffer) {
	if p.Repeats > 0 {
		b.WriteString(terminal.WrapText(fmt.Sprintf("B against A, means over %d seeds, with 95%% confidence intervals of the change (Student's t):\n", p.Repeats), 2))
	} else {
		p.writeHead(b)
	}
	t := table.New("ms", "A", "B", "change", "from", "to", "verdict")
	for _, m := range p.Metrics {
		from, to := "-", "-"
		if m.Low != nil {
			from, to = fmt.Sprintf("%+.3f", *m.Low), fmt.Sprintf("%+.3f", *m.High)
		}
		t.Add(m.Statistic+" "+m.Metric, fmt.Sprintf("%.3f", m.A), fmt.Sprintf("%.3f", m.B), fmt.Sprintf("%+.3f", m.Change), from, to, string(m.Verdict))
	}
	b.WriteString(t.Text())
	if slices.ContainsFunc(p.Metrics, func(m PairedStat) bool { return m.Verdict == OneSeed }) {
		b.WriteString(terminal.WrapText("No verdict: a router draws, and each side has one seed. --repeat 10 replays both with 10 seeds.\n", 2))
	}
}

// writeHead writes the source of the intervals.
func (p *Paired) writeHead(b *bytes.Buffer) {
	b.WriteString(terminal.WrapText(fmt.Sprintf("B against A, of the %d requests in both, with 95%% confidence intervals (paired bootstrap, %d resamples of %d stretches of %d):\n",
		p.Pairs, p.Resamples, p.Stretches, p.Stretch), 2))
}
