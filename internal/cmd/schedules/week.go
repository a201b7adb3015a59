package schedules

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/plan"
)

// weekHours is the number of hours of a week.
const weekHours = 7 * dayHours

// Begin is the hour of the week at which a trace begins. Hour 0 is the first hour of Monday.
type Begin struct {
	hour  int
	known bool
}

// listDays returns the abbreviated names of the days.
func listDays() []string { return []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"} }

// String returns the time in the format of the flag.
func (b *Begin) String() string {
	if !b.known {
		return ""
	}
	return fmt.Sprintf("%s %02d:00", listDays()[b.hour/dayHours], b.hour%dayHours)
}

// Type returns the type name of the flag.
func (*Begin) Type() string { return "time" }

// Set parses a time such as "Mon 08:00".
func (b *Begin) Set(text string) error {
	m := regexp.MustCompile(`^([A-Za-z]{3})[a-z]* (\d{1,2})(:[0-5]\d)?$`).FindStringSubmatch(text)
	if m == nil {
		return errors.New("must be a day of the week and a time, as Mon 08:00")
	}
	day := slices.IndexFunc(listDays(), func(name string) bool { return strings.EqualFold(name, m[1]) })
	hour, err := strconv.Atoi(m[2])
	if day < 0 || err != nil || hour >= dayHours {
		return errors.New("must be a day of the week and a time, as Mon 08:00")
	}
	b.hour, b.known = day*dayHours+hour, true
	return nil
}

// slot is an hour of the week or of the day. Field hours is the number of hours of the trace that fall on the slot.
type slot struct {
	hours int
	shape plan.Shape
}

// rhythm has the workers for each hour of a week or of a day.
type rhythm struct {
	begin int // slot of the first hour of the trace
	slots []slot
}

// at returns the workers for an hour of the trace.
func (p *rhythm) at(hour int) plan.Shape { return p.slots[(p.begin+hour)%len(p.slots)].shape }

// findRhythm returns the workers for each hour of a cycle: a quantile over the hours of the trace that fall on it.
func (h *ByHour) findRhythm(cycle int, begin Begin, quantile float64) *rhythm {
	p := &rhythm{begin: begin.hour % cycle, slots: make([]slot, cycle)}
	for k := range p.slots {
		var sizes [3][]int
		for i := range h.hours {
			if s := h.hours[i].shape; (p.begin+i)%cycle == k {
				sizes[0], sizes[1], sizes[2] = append(sizes[0], s.Workers), append(sizes[1], s.Prefill), append(sizes[2], s.Decode)
			}
		}
		if n := len(sizes[0]); n > 0 {
			p.slots[k] = slot{n, plan.Shape{Workers: quantileOf(sizes[0], quantile), Prefill: quantileOf(sizes[1], quantile), Decode: quantileOf(sizes[2], quantile)}}
		}
	}
	return p
}

// findRhythms finds the workers by hour of the day and of the week for traces of at least two days.
func (h *ByHour) findRhythms(r *Runner) {
	if len(h.hours) < 2*dayHours {
		return
	}
	h.begin, h.quantile = r.Begin, r.Quantile
	h.day = h.findRhythm(dayHours, r.Begin, r.Quantile)
	h.week = h.findRhythm(weekHours, r.Begin, r.Quantile)
}

// dayName returns the name of a day of the week. If the begin of the trace is unknown, days are counted from the
// first request.
func (h *ByHour) dayName(day int) string {
	if h.begin.known {
		return listDays()[day]
	}
	return fmt.Sprintf("day %d", day+1)
}

// weekRows returns a table with the workers for each hour of each day of the week.
func (h *ByHour) weekRows() (head []string, rows [][]string) {
	head = []string{"hour"}
	var days []int
	for day := range 7 {
		if slices.ContainsFunc(h.week.slots[day*dayHours:(day+1)*dayHours], func(s slot) bool { return s.hours > 0 }) {
			days, head = append(days, day), append(head, h.dayName(day))
		}
	}
	for hour := range dayHours {
		row := []string{strconv.Itoa(hour)}
		for _, day := range days {
			row = append(row, formatSlot(h.week.slots[day*dayHours+hour]))
		}
		rows = append(rows, append(row, formatSlot(h.day.slots[hour])))
	}
	return append(head, "any day"), rows
}

// formatSlot returns the workers of a slot as short text.
func formatSlot(s slot) string {
	switch {
	case s.hours == 0:
		return "-"
	case s.shape.Split():
		return fmt.Sprintf("%d+%d", s.shape.Prefill, s.shape.Decode)
	}
	return strconv.Itoa(s.shape.Workers)
}

// describeWeek describes the contents of the table of a week.
func (h *ByHour) describeWeek() string {
	text := "  Workers at each hour of the week"
	if h.week.slots[0].shape.Split() || h.hours[0].shape.Split() {
		text = "  Prefill + decode workers at each hour of the week"
	}
	if !h.begin.known {
		text += ", counted from the first request (--trace-begins)"
	}
	if len(h.hours) > weekHours {
		text += fmt.Sprintf(": %s of %.1f weeks", h.describeQuantile(), float64(len(h.hours))/weekHours)
	}
	return text + "; any day: " + h.describeQuantile() + " of all days.\n"
}

// describeQuantile describes how hours of the trace that fall on the same hour are combined.
func (h *ByHour) describeQuantile() string {
	if h.quantile == 1 {
		return "the most"
	}
	return fmt.Sprintf("the %g quantile", h.quantile)
}

// cycles returns the repeating schedules with their names. cycles includes only cycles that are shorter than the
// trace.
func (h *ByHour) cycles() (names []string, all []*rhythm) {
	if h.week != nil && len(h.hours) > weekHours {
		names, all = append(names, "by hour of the week"), append(all, h.week)
	}
	if h.day != nil {
		names, all = append(names, "by hour of the day"), append(all, h.day)
	}
	return names, all
}

// repeat returns the schedule with the workers of a cycle.
func (h *ByHour) repeat(p *rhythm) *ByHour {
	other := *h
	other.hours = slices.Clone(h.hours)
	for i := range other.hours {
		other.hours[i].shape = p.at(i)
	}
	return &other
}

// weekDocument is an hour of the week as JSON.
type weekDocument struct {
	Day   string `json:"day"`
	Hour  int    `json:"hour"`
	Hours int    `json:"hours"` // number of hours of the trace that fall on it
	sizeDocument
}
