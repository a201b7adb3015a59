package schedules

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// writeRows returns a trace with the given number of requests in each hour. Every third request has a second turn 1.5
// hours later.
func writeRows(requests ...int) string {
	var b strings.Builder
	var later []string
	for hour, n := range requests {
		for i := range n {
			at := int(hourMS)*hour + int(hourMS)*i/n
			if i%3 > 0 {
				fmt.Fprintf(&b, "{\"timestamp\":%d,\"input_length\":2000,\"output_length\":400,\"hash_ids\":[%d,7,8,9]}\n", at, i)
				continue
			}
			fmt.Fprintf(&b, "{\"session_id\":\"%d-%d\",\"timestamp\":%d,\"input_length\":2000,\"output_length\":400,\"hash_ids\":[%d,7,8,9]}\n", hour, i, at, i)
			later = append(later, fmt.Sprintf("{\"session_id\":\"%d-%d\",\"delay\":5400000,\"input_length\":2400,\"output_length\":100,\"hash_ids\":[%d,7,8,9,10]}\n", hour, i, i))
		}
	}
	return b.String() + strings.Join(later, "")
}

// cutRows cuts a trace into hours.
func cutRows(t *testing.T, text string, o CutOptions) (*Cut, error) {
	t.Helper()
	s, err := registry.NewStream(strings.NewReader(text), "rows", formats.Options{TraceBlock: 512, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	return CutTrace(s, o)
}

// The hours of a cut trace have the same sessions, turns and times as the hours of the trace in memory.
func TestCutHoursAreThose(t *testing.T) {
	ctx, text := context.Background(), writeRows(30, 600, 250, 0, 400)
	whole, err := registry.Read(strings.NewReader(text), "rows", formats.Options{TraceBlock: 512, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, speedup := range []float64{1, 2} {
		c, err := cutRows(t, text, CutOptions{Speedup: speedup, Growth: 1})
		if err != nil {
			t.Fatal(err)
		}
		length := hourMS * sim.Time(speedup)
		for from := range c.hours {
			for to := from + 1; to <= min(from+2, len(c.hours)); to++ {
				want := plan.Between(whole, length*sim.Time(from), length*sim.Time(to))
				got, err := c.Open(ctx, from, to)
				if err != nil {
					t.Fatal(err)
				}
				if len(got.Sessions) != len(want.Sessions) || len(got.Turns) != len(want.Turns) {
					t.Fatalf("hours %d to %d: %d sessions of %d turns, must be %d of %d", from, to, len(got.Sessions), len(got.Turns), len(want.Sessions), len(want.Turns))
				}
				for i := range want.Sessions {
					if a, b := got.Sessions[i].Arrival, want.Sessions[i].Arrival; math.Abs(float64(a-b)) > 1e-6 {
						t.Fatalf("hours %d to %d: session %d begins at %v, must be %v", from, to, i, a, b)
					}
				}
			}
		}
		if c.Busiest() != map[float64]int{1: 1, 2: 0}[speedup] {
			t.Errorf("hour %d is the busiest", c.Busiest())
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
			t.Errorf("the files are still there: %v", err)
		}
	}
}

// Growth increases the number of sessions of each hour by its factor.
func TestCutGrows(t *testing.T) {
	c, err := cutRows(t, writeRows(300, 300, 300), CutOptions{Speedup: 1, Growth: 1.5})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := c.Open(context.Background(), 1, 2)
	busiest, wrong := c.OpenBusiest(context.Background())
	if err != nil || wrong != nil || len(w.Sessions) != 450 || len(busiest.Sessions) != 300 {
		t.Errorf("%d sessions in an hour that grew, %d in one that did not, must be 450 and 300 (%v, %v)", len(w.Sessions), len(busiest.Sessions), err, wrong)
	}
}

// A trace that cannot be cut is rejected with its line, and no files remain.
func TestCutRefuses(t *testing.T) {
	row := func(at int) string {
		return fmt.Sprintf("{\"timestamp\":%d,\"input_length\":20,\"output_length\":4,\"hash_ids\":[1]}\n", at)
	}
	for text, want := range map[string]string{
		row(5000) + row(1000) + row(9000000):          "rows:2: ",
		row(0) + row(int(hourMS)):                     "must be at least 2 hours",
		row(0) + row(int(hourMS)*(mostHours+1)):       "more than 87600 hours",
		row(0) + "{\"input_length\":20,\"output_le\n": "rows:2: ",
	} {
		t.Setenv("TMPDIR", t.TempDir())
		c, err := cutRows(t, text, CutOptions{Speedup: 1, Growth: 1})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, must contain %q", err, want)
		}
		if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 || c != nil {
			t.Errorf("%v is left", left)
		}
	}
}

// cutHours returns a cut trace with the given number of evenly spaced requests in each hour.
func cutHours(t *testing.T, requests []int) *Cut {
	t.Helper()
	var text strings.Builder
	for hour, n := range requests {
		for i := range n {
			fmt.Fprintf(&text, "{\"timestamp\":%d,\"input_length\":2000,\"output_length\":400,\"hash_ids\":[%d,%[2]d,%[2]d,%[2]d]}\n", int(hourMS)*hour+int(hourMS)*i/n, 10000*hour+i)
		}
	}
	c, err := cutRows(t, text.String(), CutOptions{Speedup: 1, Growth: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// The schedule of a cut trace has the same workers in each hour as the schedule of the trace in memory. All ways to
// size the cluster meet the objectives in every hour and have the same costs.
func TestCutScheduleIsThat(t *testing.T) {
	ctx := context.Background()
	c := cutHours(t, []int{300, 6000, 2500, 0, 4000})
	for _, startup := range []time.Duration{2 * time.Minute} {
		r := runnerOf(5.9, startup)
		r.Quantile = 1
		want, err := r.Find(ctx, busyHours(300, 6000, 2500, 0, 4000), plan.Shape{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.FindCut(ctx, c, plan.Shape{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.hours {
			if a, b := got.hours[i].shape.Workers, want.hours[i].shape.Workers; a < b || a > b+1 || got.hours[i].requests != want.hours[i].requests {
				t.Errorf("hour %d: %d workers for %d requests, in memory %d for %d", i, a, got.hours[i].requests, b, want.hours[i].requests)
			}
		}
		for i := range want.ways {
			a, b := &got.ways[i], &want.ways[i]
			if a.name != b.name && !strings.HasPrefix(a.name, "HPA") || a.name != "HPA" && math.Abs(a.gpuHours-b.gpuHours) > 0.15*b.gpuHours {
				t.Errorf("%+v, in memory %+v", a, b)
			}
		}
		if !got.ways[0].met || !got.ways[2].met {
			t.Errorf("%+v", got.ways)
		}
	}
}

// The usage of an autoscaled pool between two times is the sum over its sizes between these times.
func TestUsageWithin(t *testing.T) {
	s := &harness.Scaling{Sizes: []harness.PoolSize{{At: 0, Ready: 1, GPUs: 2}, {At: hourMS / 2, Ready: 3, GPUs: 6}, {At: hourMS, Ready: 2, GPUs: 4}}, End: hourMS}
	for _, x := range []struct {
		from, to    sim.Time
		gpuHours    float64
		least, most int
	}{{0, hourMS, 4, 1, 3}, {hourMS / 2, hourMS * 3 / 2, 5, 2, 3}, {hourMS, 2 * hourMS, 4, 2, 2}} {
		u := usageWithin([]*harness.Scaling{s}, x.from, x.to)
		if math.Abs(u.GPUHours-x.gpuHours) > 1e-9 || u.Least != x.least || u.Most != x.most {
			t.Errorf("from %v to %v: %+v", x.from, x.to, u)
		}
	}
}

// The workers of an hour of the week or of the day are a quantile over the hours of the trace that fall on it. Hours
// are counted from the begin of the trace.
func TestRhythms(t *testing.T) {
	h := &ByHour{gpus: func(s plan.Shape) float64 { return float64(s.Size()) }}
	for i := range 2*weekHours + 5 {
		n := 1 + i%dayHours
		if i >= weekHours {
			n++
		}
		h.hours = append(h.hours, hourOf{from: hourMS * sim.Time(i), to: hourMS * sim.Time(i+1), requests: 1, shape: plan.One(n)})
	}
	r := &Runner{Quantile: 1}
	if err := r.Begin.Set("wed 06:30"); err != nil || r.Begin.String() != "Wed 06:00" {
		t.Fatal(err, r.Begin.String())
	}
	h.findRhythms(r)
	for i := range h.hours {
		if got, want := h.week.at(i), plan.One(2+i%dayHours); got != want {
			t.Fatalf("hour %d: %v of a week, must be %v", i, got, want)
		}
	}
	head, rows := h.weekRows()
	if len(head) != 9 || head[3] != "Wed" || len(rows) != dayHours || rows[6][3] != "2" || rows[5][8] != "25" {
		t.Errorf("%v\n%v", head, rows)
	}
	r.Quantile = 0.5
	h.findRhythms(r)
	if got := h.week.at(100); got != plan.One(1+100%dayHours) {
		t.Errorf("the median of two is %v", got)
	}
	names, cycles := h.cycles()
	if len(names) != 2 || h.repeat(cycles[1]).hours[30].shape != h.day.at(30) {
		t.Errorf("%v", names)
	}
	if d := h.Document("", 1); len(d.OfTheWeek) != weekHours || d.OfTheWeek[0].Day != "Mon" || d.OfTheWeek[54].Hours != 3 || d.OfTheWeek[60].Hours != 2 {
		t.Errorf("%+v", d.OfTheWeek[:2])
	}
	for _, text := range []string{"", "Mon", "Mon 24:00", "Xyz 3", "Mon -1", "Mon 3:99"} {
		if (&Begin{}).Set(text) == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// For a trace of more than two days, the schedules include a daily schedule. In every hour it has at least the
// workers of that hour, in memory and cut.
func TestDaysRepeat(t *testing.T) {
	ctx := context.Background()
	var requests []int
	for hour := range 51 {
		requests = append(requests, 20)
		if hour%dayHours == 5 {
			requests[hour] = 3000 + 20*hour
		}
	}
	c := cutHours(t, requests)
	r := runnerOf(5.9, 0)
	r.Quantile = 1
	whole, err := r.Find(ctx, busyHours(requests...), plan.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	cut, err := r.FindCut(ctx, c, plan.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []*ByHour{whole, cut} {
		for i := range h.hours {
			if got := h.day.at(i); got.Workers < h.hours[i].shape.Workers || i%dayHours != 5 && got.Workers > 1 {
				t.Errorf("hour %d has %v by the day and %v by itself", i, got, h.hours[i].shape)
			}
		}
		day := &h.ways[1]
		if day.name != "by hour of the day" || !day.met || day.gpuHours < h.ways[0].gpuHours || len(h.ways) != 4 || h.day.at(29).Workers < 2 {
			t.Errorf("%+v", h.ways)
		}
		if out := h.Format("By hour", 16, func(s string) string { return s }); !strings.Contains(out, "  hour  day 1  day 2  day 3  any day\n") || !strings.Contains(out, "any day: the most of all days") {
			t.Error(out)
		}
	}
}
