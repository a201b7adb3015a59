package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/replay-llm/replay/report/requests"
)

func msText(t requests.MS) string {
	if !t.Known() {
		return "never"
	}
	return "at " + strconv.FormatFloat(float64(t), 'f', -1, 64) + " ms"
}

// WriteJSON writes all of d.
func (d *Diff) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

// WriteText writes d for people.
func (d *Diff) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "A: %s\nB: %s\n", d.A, d.B)
	if len(d.Settings) > 0 {
		b.WriteString("\nSettings that differ:\n")
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, s := range foldSettings(d.Settings) {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", s.Key, orNone(s.A), orNone(s.B))
		}
		t.Flush() // a buffer takes everything
	}
	fmt.Fprintf(&b, "\nMetrics: %d of %d differ\n", len(d.Metrics), d.Compared)
	if len(d.Metrics) > 0 {
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(t, "metric\tA\tB\tchange\t%\t\n")
		for _, m := range d.Metrics {
			share := ""
			if m.A != 0 {
				share = fmt.Sprintf("%+.2f", m.Share)
			}
			fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%s\t%s\t\n", m.Key, m.A, m.B, changeText(m.Change), share)
		}
		t.Flush()
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

// changeText shows a difference, be it as small as it may.
func changeText(by float64) string {
	if math.Abs(by) < 0.0005 {
		return fmt.Sprintf("%+.1e", by)
	}
	return fmt.Sprintf("%+.3f", by)
}

// foldSettings puts settings that only one side has, all under one name, on one line:
// those of a router that the other side does not have, say.
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

// passText returns a line on where the schedules part.
func (d *Diff) passText() string {
	switch {
	case d.FirstPass != nil:
		return "First pass to differ: " + d.FirstPass.String()
	case d.NoPass != "":
		return "First pass to differ: not known: " + d.NoPass
	}
	return ""
}

// writeText writes r; pass is a line about the first pass that differs, or "".
func (r *Requests) writeText(b *bytes.Buffer, pass string) {
	fmt.Fprintf(b, "\nRequests: %d in both, %d of them moved; %d only in A, %d only in B\n", r.Joined, r.Moved, r.OnlyA, r.OnlyB)
	if p := r.Parting; p != nil {
		fmt.Fprintf(b, "First difference at %s ms: %s of %v: A %s, B %s\n",
			strconv.FormatFloat(p.AtMS, 'f', -1, 64), p.What, p.Request, p.A, p.B)
	}
	if pass != "" {
		fmt.Fprintln(b, pass)
	}
	if r.Paired != nil {
		r.Paired.writeText(b)
	}
	if len(r.Most) == 0 {
		return
	}
	b.WriteString("Moved most, by end-to-end latency:\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "id\tsession\tturn\tE2E A\tE2E B\tchange\tTTFT A\tTTFT B\tworkers\t\n")
	for _, m := range r.Most {
		change := ""
		if m.E2EA != nil && m.E2EB != nil {
			change = fmt.Sprintf("%+.2f", *m.E2EB-*m.E2EA)
		}
		workers := strconv.Itoa(m.WorkerA)
		if m.WorkerB != m.WorkerA {
			workers += " -> " + strconv.Itoa(m.WorkerB)
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", m.Request.ID, m.Request.Session, m.Request.Turn,
			twoDecimals(m.E2EA), twoDecimals(m.E2EB), change, twoDecimals(m.TTFTA), twoDecimals(m.TTFTB), workers)
	}
	t.Flush()
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
	fmt.Fprintf(b, "B against A, of the %d requests in both, with 95%% intervals (paired bootstrap, %d resamples in stretches of %d):\n",
		p.Pairs, p.Resamples, p.Stretch)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "ms\tA\tB\tchange\tfrom\tto\tverdict\t\n")
	for _, m := range p.Metrics {
		from, to := "-", "-"
		if m.Low != nil {
			from, to = fmt.Sprintf("%+.3f", *m.Low), fmt.Sprintf("%+.3f", *m.High)
		}
		fmt.Fprintf(t, "%s %s\t%.3f\t%.3f\t%+.3f\t%s\t%s\t%s\t\n", m.Statistic, m.Metric, m.A, m.B, m.Change, from, to, m.Verdict)
	}
	t.Flush()
}
