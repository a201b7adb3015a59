package schedules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/plan"
)

// mostRows is the maximum number of hours that are printed individually.
const mostRows = 2 * dayHours

// Format returns the schedule and its cost as text. wrap breaks long lines.
func (h *ByHour) Format(head string, most int, wrap func(string) string) string {
	b := &strings.Builder{}
	b.WriteString(wrap(head + ":\n"))
	columns, rows := h.HourRows()
	t := table.New(columns...)
	for _, row := range rows {
		t.Add(row...)
	}
	b.WriteString(t.Text())
	if len(h.hours) > mostRows {
		b.WriteString(wrap(h.describeWeek()))
	}
	h.writeMissed(b, most, wrap)
	h.writeWays(b, wrap)
	return b.String()
}

// HourRows returns a table with the cluster of each hour. For long traces it has the cluster of each hour of the
// week.
func (h *ByHour) HourRows() (head []string, rows [][]string) {
	if len(h.hours) > mostRows {
		return h.weekRows()
	}
	for i := range h.hours {
		one := &h.hours[i]
		rows = append(rows, []string{strconv.Itoa(i), fmt.Sprintf("%.2f", one.rate()), fmt.Sprintf("%.0f", h.gpus(one.shape)), one.shape.String()})
	}
	return []string{"hour", "requests/s", "GPUs", "smallest cluster"}, rows
}

// NameRows returns the meaning of the rows of HourRows for the title. NameRows returns "" if each row is an hour of
// the trace.
func (h *ByHour) NameRows() string {
	if len(h.hours) <= mostRows {
		return ""
	}
	return ": workers at each hour of the week, " + h.describeQuantile() + " of all weeks"
}

// WayRows returns a table of the ways to size the cluster. WayRows includes costs if prices are known.
func (h *ByHour) WayRows() (head []string, rows [][]string) {
	head = []string{"size", "GPU-hours/day", "cost/day", "workers", "objectives"}
	for i := range h.ways {
		way := &h.ways[i]
		day := way.gpuHours / h.countHours() * dayHours
		rows = append(rows, []string{way.name, fmt.Sprintf("%.1f", day), fmt.Sprintf("%.2f", day*h.price), way.workers, formatMet(way.met)})
	}
	if h.price == 0 {
		head = slices.Delete(head, 2, 3)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 2, 3)
		}
	}
	return head, rows
}

// rate returns the requests per second in an hour.
func (one *hourOf) rate() float64 {
	if one.to <= one.from {
		return 0
	}
	return float64(one.requests) / float64((one.to-one.from)/1000)
}

// writeWays writes the table of the ways to size the cluster.
func (h *ByHour) writeWays(b *strings.Builder, wrap func(string) string) {
	head, rows := h.WayRows()
	t := table.NewLeft(head...)
	for _, row := range rows {
		t.Add(row...)
	}
	b.WriteString("\n" + t.Text())
	for i := range h.ways {
		if way := &h.ways[i]; !way.met {
			b.WriteString(wrap(fmt.Sprintf("  %s: %s\n", way.name, way.missed)))
		}
	}
	b.WriteString(wrap(h.describeCover() + "\n"))
}

// describeCover describes the duration of the trace and the handling of startup times.
func (h *ByHour) describeCover() string {
	text := fmt.Sprintf("  The trace covers %.1f hours, from which a day follows in proportion.", h.countHours())
	if h.cut != nil {
		text += " Every hour was replayed after the hour before it, and has to meet the objectives by itself."
	}
	if h.startup > 0 {
		text += fmt.Sprintf(" Workers are asked for %g s before the hour that needs them, and count from then on.", h.startup)
	} else {
		text += " Workers start at once: --worker-startup sets the time that they take."
	}
	if h.hours[0].shape.Split() {
		text += " HPA is left out: prefill and decode workers have one each, with separate targets."
	}
	return text
}

// Document is a schedule as JSON.
type Document struct {
	Settings  string         `json:"settings"`
	Factor    float64        `json:"pass_time_factor"` // factor for pass times, relative to the model
	Startup   float64        `json:"startup_s"`
	Covered   float64        `json:"hours_covered"`
	Hours     []hourDocument `json:"hours"`
	OfTheDay  []sizeDocument `json:"hours_of_the_day,omitempty"`  // for traces of at least two days; hour 0 is the hour of the first request unless --trace-begins is set
	OfTheWeek []weekDocument `json:"hours_of_the_week,omitempty"` // for traces of at least two days, without hours that have no requests
	Quantile  float64        `json:"week_quantile,omitempty"`     // quantile over the hours of the trace that fall on the same hour
	Streamed  bool           `json:"streamed,omitempty"`          // the objectives are checked in every hour separately
	Busiest   *int           `json:"busiest_hour,omitempty"`      // hour that the other parts of the plan use, with --stream
	WaysToRun []wayDocument  `json:"sizes"`
}

type sizeDocument struct {
	Workers int `json:"workers,omitempty"`
	Prefill int `json:"prefill_workers,omitempty"`
	Decode  int `json:"decode_workers,omitempty"`
	GPUs    int `json:"gpus"`
}

type hourDocument struct {
	FromS    float64 `json:"from_s"`
	ToS      float64 `json:"to_s"`
	Requests int     `json:"requests"`
	Met      bool    `json:"met"`
	Missed   string  `json:"missed,omitempty"`
	sizeDocument
}

type wayDocument struct {
	Name     string  `json:"name"`
	Workers  string  `json:"workers"`
	GPUHours float64 `json:"gpu_hours"`
	PerDay   float64 `json:"gpu_hours_per_day"`
	Cost     float64 `json:"cost_per_day,omitempty"` // absent without a price
	Met      bool    `json:"met"`
	Missed   string  `json:"missed,omitempty"`
}

// Document returns the schedule as a JSON document.
func (h *ByHour) Document(settings string, factor float64) *Document {
	size := func(s plan.Shape) sizeDocument {
		return sizeDocument{s.Workers, s.Prefill, s.Decode, int(h.gpus(s))}
	}
	d := &Document{Settings: settings, Factor: factor, Startup: h.startup, Covered: h.countHours()}
	for i := range h.hours {
		one := &h.hours[i]
		d.Hours = append(d.Hours, hourDocument{float64(one.from) / 1000, float64(one.to) / 1000, one.requests, one.missed == "", one.missed, size(one.shape)})
	}
	if h.day != nil {
		d.Quantile = h.quantile
		for _, s := range h.day.slots {
			d.OfTheDay = append(d.OfTheDay, size(s.shape))
		}
		for i, s := range h.week.slots {
			if s.hours > 0 {
				d.OfTheWeek = append(d.OfTheWeek, weekDocument{h.dayName(i / dayHours), i % dayHours, s.hours, size(s.shape)})
			}
		}
	}
	if h.cut != nil {
		busiest := h.cut.Busiest()
		d.Streamed, d.Busiest = true, &busiest
	}
	for i := range h.ways {
		way := &h.ways[i]
		day := way.gpuHours / h.countHours() * dayHours
		d.WaysToRun = append(d.WaysToRun, wayDocument{way.name, way.workers, way.gpuHours, day, day * h.price, way.met, way.missed})
	}
	return d
}

func formatMet(ok bool) string {
	if ok {
		return "met"
	}
	return "missed"
}

// mostMissed is the maximum number of listed hours that no number of workers can serve.
const mostMissed = 3

// writeMissed writes the hours that no number of workers can serve.
func (h *ByHour) writeMissed(b *strings.Builder, most int, wrap func(string) string) {
	count := 0
	for i := range h.hours {
		missed := h.hours[i].missed
		if missed == "" {
			continue
		}
		if count++; count <= mostMissed {
			b.WriteString(wrap(fmt.Sprintf("  Hour %d is not met with any number of workers up to %d: %s\n", i, most, missed)))
		}
	}
	if count > mostMissed {
		b.WriteString(wrap(fmt.Sprintf("  Nor are %d more hours. They have as many workers as the largest of the remaining hours.\n", count-mostMissed)))
	}
}
