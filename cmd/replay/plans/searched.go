package plans

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/plan"
)

// searched is the result of a search.
type searched struct {
	*plan.Narrowed
	choices  []chosen // all of them
	workload int      // number of requests of the workload
	hard     bool     // stretches are from a resample, not from the trace as recorded
}

// describeNext describes the best choices of other kinds, which were not planned in full.
func (s *searched) describeNext(planned int) []string {
	var lines []string
	seen := map[string]bool{}
	for k, i := range s.Kept {
		m, c := s.At[k], &s.choices[i]
		if kind := c.variant.Kind; k < planned || seen[kind] {
			seen[kind] = true
			continue
		}
		seen[c.variant.Kind] = true
		var values []string
		for i := range m.Values {
			values = append(values, m.Values[i].Name+" "+formatTime(m.Values[i].Value, m.Values[i].Unit))
		}
		gpus, hourly := c.variant.GPUsOf(m.Shape), ""
		if cost := c.variant.CostOf(m.Shape); cost > 0 {
			hourly = fmt.Sprintf(", %.2f an hour", cost)
		}
		lines = append(lines, fmt.Sprintf("%s (%s%s), %s: %s", m.Shape, countGPUs(gpus), hourly, c.variant.Name, strings.Join(values, ", ")))
	}
	return lines
}

// formatInterrupted describes the results of an interrupted search.
func (s *searched) formatInterrupted() string {
	lines, count := s.describeNext(0), fmt.Sprintf("%d replays", s.Replays)
	if s.Replays == 1 {
		count = "1 replay"
	}
	if len(lines) == 0 {
		return fmt.Sprintf("Interrupted after %s: nothing meets the objectives so far\n", count)
	}
	return terminal.WrapText(fmt.Sprintf("Interrupted after %s. Best so far, %s:\n  %s\n", count, s.nameStretch(-1), strings.Join(lines, "\n  ")), 4)
}

// describe describes the searched and the omitted choices, by kind.
func (s *searched) describe() []string {
	lines := []string{fmt.Sprintf("Searched: %d choices of settings, in %d replays of the busiest stretches (%d requests, equal to %.1f replays of the whole workload)",
		len(s.choices), s.Replays, s.Requests, s.countReplays())}
	if s.Stopped {
		lines[0] += ", which ended early (--time-budget, --replays)"
	}
	if s.hard {
		lines[0] += "; stretches are of a hard resample"
	}
	type family struct {
		count, unseen int        // unseen: not replayed
		best          *plan.Left // that meets
		most          int        // largest number of GPUs that missed
	}
	families, names := map[string]*family{}, []string(nil)
	for i := range s.Left {
		l := &s.Left[i]
		kind := cmp.Or(s.choices[l.Variant].variant.Kind, "others")
		x := families[kind]
		if x == nil {
			x = &family{}
			families[kind], names = x, append(names, kind)
		}
		x.count++
		switch {
		case l.At != nil && (x.best == nil || s.burdenOf(l) < s.burdenOf(x.best)):
			x.best = l
		case l.At == nil && l.Most.Size() == 0:
			x.unseen++
		case l.At == nil:
			x.most = max(x.most, s.choices[l.Variant].variant.GPUsOf(l.Most))
		}
	}
	for _, kind := range names {
		x := families[kind]
		if x.unseen == x.count {
			lines = append(lines, fmt.Sprintf("%s: %s not replayed%s", kind, countChoices(x.count), s.reasonUnseen()))
			continue
		}
		line := fmt.Sprintf("%s: %s left out", kind, countChoices(x.count))
		switch {
		case x.best != nil:
			line += fmt.Sprintf(", the best needs %s %s", countGPUs(s.gpusOf(x.best)), s.nameStretch(x.best.Part))
		case x.most > 0:
			line += fmt.Sprintf(", none meets with up to %s", countGPUs(x.most))
		}
		if x.unseen > 0 {
			line += fmt.Sprintf(", %d not replayed%s", x.unseen, s.reasonUnseen())
		}
		lines = append(lines, line)
	}
	return append(lines, s.describeRefused()...)
}

// reasonUnseen returns the reason why choices were not replayed.
func (s *searched) reasonUnseen() string {
	if s.Stopped {
		return ""
	}
	return ": their smallest cluster costs more"
}

// countReplays returns the number of requests of the search divided by those of the workload.
func (s *searched) countReplays() float64 { return float64(s.Requests) / float64(max(1, s.workload)) }

// describeRefused returns one line per reason why choices cannot run, with the text of the first choice.
func (s *searched) describeRefused() []string {
	type family struct {
		text  string
		count int
		kinds []string
	}
	families, keys := map[string]*family{}, []string(nil)
	for i := range s.choices {
		v := &s.choices[i].variant
		if v.Refused == nil {
			continue
		}
		text, _, _ := strings.Cut(v.Refused.Error(), ": of ")
		key := v.Kind
		if flag, ok := strings.CutPrefix(text, "--"); ok {
			key, _, _ = strings.Cut(flag, "=")
		}
		x := families[key]
		if x == nil {
			x = &family{text: text}
			families[key], keys = x, append(keys, key)
		}
		if x.count++; !slices.Contains(x.kinds, v.Kind) {
			x.kinds = append(x.kinds, v.Kind)
		}
	}
	lines := make([]string, len(keys))
	for i, key := range keys {
		x := families[key]
		name := x.kinds[0]
		if len(x.kinds) > 1 {
			name = fmt.Sprintf("%d kinds", len(x.kinds))
		}
		lines[i] = strings.TrimPrefix(fmt.Sprintf("%s: %s cannot run: %s", name, countChoices(x.count), x.text), ": ")
	}
	return lines
}

// describeNearest returns the objectives that the nearest choice meets, "" if a choice meets the given objectives.
func (s *searched) describeNearest() string {
	m := s.Nearest
	if m == nil {
		return ""
	}
	head := "No choice of settings meets the objectives."
	if s.Stopped {
		head = "No choice of settings was found that meets the objectives before the search ended."
	}
	return fmt.Sprintf("%s The nearest, %s with %s: %s", head, s.choices[m.Variant].variant.Name, m.Shape, m.Missed)
}

// searchDocument is the JSON form of a search.
type searchDocument struct {
	Choices  int               `json:"choices"`
	Replays  int               `json:"replays"`           // number of replays of stretches of a resample
	Requests int               `json:"requests_replayed"` // of these replays: a replay of a stretch has those of the stretch
	Wholes   float64           `json:"whole_replays"`     // number of replays of the whole workload with the same number of requests
	Stopped  bool              `json:"stopped"`           // by --time-budget or --replays
	Found    []choiceDocument  `json:"found"`             // the best choice of each kind, the best first; choices that were planned in full are in the variants
	Left     []choiceDocument  `json:"left_out"`
	Refused  []refusedDocument `json:"cannot_run"`
}

// choiceDocument is a choice of settings and its smallest cluster on a stretch of a resample.
type choiceDocument struct {
	Settings   string          `json:"settings"`
	Stretch    float64         `json:"stretch"` // share of the time of the workload that was replayed
	Met        bool            `json:"met"`
	Workers    int             `json:"workers,omitempty"`
	Prefill    int             `json:"prefill_workers,omitempty"`
	Decode     int             `json:"decode_workers,omitempty"`
	GPUs       int             `json:"gpus,omitempty"`
	PerHour    float64         `json:"cost_per_hour,omitempty"`
	Objectives []valueDocument `json:"objectives,omitempty"`
	MostGPUs   int             `json:"most_gpus,omitempty"` // of the largest cluster that missed, where none met
	Reason     string          `json:"reason,omitempty"`    // reason why no cluster met the objectives
}

type refusedDocument struct {
	Settings string `json:"settings"`
	Reason   string `json:"reason"`
}

// document returns the JSON form of a search.
func (s *searched) document() *searchDocument {
	d := &searchDocument{Choices: len(s.choices), Replays: s.Replays, Requests: s.Requests, Wholes: s.countReplays(), Stopped: s.Stopped, Found: []choiceDocument{}, Left: []choiceDocument{}, Refused: []refusedDocument{}}
	for k, i := range s.Kept {
		d.Found = append(d.Found, s.choiceDocument(i, s.At[k].Part, s.At[k], plan.Shape{}))
	}
	for i := range s.Left {
		l := &s.Left[i]
		d.Left = append(d.Left, s.choiceDocument(l.Variant, l.Part, l.At, l.Most))
	}
	for i := range s.choices {
		if v := &s.choices[i].variant; v.Refused != nil {
			d.Refused = append(d.Refused, refusedDocument{v.Name, v.Refused.Error()})
		}
	}
	return d
}

func (s *searched) choiceDocument(i, part int, at *plan.Measure, most plan.Shape) choiceDocument {
	v := &s.choices[i].variant
	d := choiceDocument{Settings: v.Name, Stretch: 1 / float64(int(1)<<part), Met: at != nil}
	if at == nil {
		if d.MostGPUs = v.GPUsOf(most); most.Size() > 0 {
			d.Reason = "misses with up to " + countGPUs(d.MostGPUs)
		} else {
			d.Stretch, d.Reason = 0, "not replayed"+s.reasonUnseen()
		}
		return d
	}
	d.Workers, d.Prefill, d.Decode, d.GPUs = at.Shape.Workers, at.Shape.Prefill, at.Shape.Decode, v.GPUsOf(at.Shape)
	d.PerHour = v.CostOf(at.Shape)
	for _, value := range at.Values {
		d.Objectives = append(d.Objectives, valueDocument(value))
	}
	return d
}

func countChoices(n int) string {
	if n == 1 {
		return "1 choice"
	}
	return fmt.Sprintf("%d choices", n)
}

// nameStretch returns the part of the workload that a search replays; -1: any part.
func (s *searched) nameStretch(part int) string {
	switch {
	case part > 0:
		return fmt.Sprintf("in the busiest 1/%d", 1<<part)
	case !s.hard:
		return "on the trace as recorded"
	case part < 0:
		return "in a hard resample"
	}
	return "in the whole resample"
}

func (s *searched) gpusOf(l *plan.Left) int {
	return s.choices[l.Variant].variant.GPUsOf(l.At.Shape)
}

func (s *searched) burdenOf(l *plan.Left) float64 {
	return float64(s.gpusOf(l)) * max(s.choices[l.Variant].variant.Price, 1e-9)
}
