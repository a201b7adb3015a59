package plans

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/scheduler/hardware"
)

// search is what a plan varies by itself, where a GPU and a model are named.
type search struct {
	vary, fix, allow []string
	budget           time.Duration
	replays          int
	begun            time.Time
}

// Names of what a search varies. tp is how a model is divided among GPUs, so dp and ep too.
const (
	varyTP       = "tp"
	varyBudget   = "max-num-batched-tokens"
	varyRouter   = "router"
	varyTopology = "topology"
	varyNone     = "none"
)

// listVaried returns the names of all that a search can vary.
func listVaried() []string { return []string{varyTP, varyBudget, varyRouter, varyTopology} }

// mostKinds is the number of kinds of which a search finds the best choices. The best of all is planned in full, and others
// that could need less.
const mostKinds = 4

// mostChoices bounds the choices of settings of a search.
const mostChoices = 5000

// dimension is one thing that varies: lists of settings of which a choice has one.
type dimension [][]plan.Setting

// flagsOf returns the flags that say what a search would vary otherwise.
func flagsOf(name string) []string {
	switch name {
	case varyTP:
		return []string{"tp", "pp", "dp", "ep"}
	case varyBudget:
		return []string{"max-num-batched-tokens", "chunked-prefill-size", "max-num-tokens", "enable-chunked-context"}
	case varyRouter:
		return []string{"router", "router-policy", "policy-process", "endpoint-picker"}
	}
	return []string{name}
}

// check complains about names that a search does not know, and about what is both given and to vary.
func (s *search) check(o *options.Options) error {
	for _, name := range s.vary {
		if given := o.FirstChanged(flagsOf(name)...); slices.Contains(listVaried(), name) && given != "" {
			return cli.Usagef("--vary=%s: --%s says what it is: remove one of them", name, given)
		}
	}
	for flag, names := range map[string][]string{"vary": s.vary, "fix": s.fix} {
		for _, name := range names {
			if !slices.Contains(listVaried(), name) && !(flag == "vary" && name == varyNone && len(names) == 1) {
				return cli.Usagef("--%s=%s: must be some of %s%s", flag, name, strings.Join(listVaried(), ", "), nearest.Ask(name, listVaried()))
			}
		}
	}
	if len(s.allow) > 0 && slices.Contains(s.vary, varyNone) {
		return cli.Usagef("--allow: only without --vary none")
	}
	return nil
}

// varies reports whether a search varies something that the command line leaves open.
func (s *search) varies(o *options.Options, name string) bool {
	if s.vary != nil && !slices.Contains(s.vary, name) || slices.Contains(s.fix, name) {
		return false
	}
	return o.FirstChanged(flagsOf(name)...) == ""
}

// gpusOf returns the GPUs that are named.
func gpusOf(o *options.Options) []string {
	for _, s := range o.Settings() {
		if s.Name == "gpu" {
			return strings.Split(s.Value, ",")
		}
	}
	return nil
}

// searches reports whether a plan chooses settings by itself: where a GPU and a model are named, and nothing that is to be
// tried.
func (f *planFlags) searches(o *options.Options) bool {
	return o.Changed("gpu") && o.Changed("model") && len(f.try) == 0 && !slices.Contains(f.search.vary, varyNone) &&
		o.FirstChanged("workers", "prefill-workers", "decode-workers", "compat", "deployment", "worker-speed") == "" && firstOfTwoPools(o) == ""
}

// listDimensions returns what a search varies on the GPUs of the command line.
func (f *planFlags) listDimensions(o *options.Options) ([]dimension, error) {
	var all []dimension
	s := &f.search
	gpus := gpusOf(o)
	var hardwareChoices dimension
	for _, gpu := range gpus {
		var base []plan.Setting
		if len(gpus) > 1 {
			base = []plan.Setting{{Name: "gpu", Value: gpu}}
		}
		if !s.varies(o, varyTP) {
			hardwareChoices = append(hardwareChoices, base)
			continue
		}
		sets, err := parallelChoices(o, gpu)
		if err != nil {
			return nil, err
		}
		for _, set := range sets {
			hardwareChoices = append(hardwareChoices, append(slices.Clone(base), set...))
		}
	}
	all = append(all, hardwareChoices)
	if len(s.allow) > 0 {
		precisions := dimension{nil}
		for _, name := range s.allow {
			precisions = append(precisions, []plan.Setting{{Name: "quantization", Value: name}})
		}
		all = append(all, precisions)
	}
	if s.varies(o, varyBudget) {
		all = append(all, budgetChoices(o))
	}
	if s.varies(o, varyRouter) {
		all = append(all, dimension{nil, {{Name: "router", Value: "kv"}}})
	}
	return all, nil
}

// parallelChoices returns how a model can be divided among the GPUs of a node: by tensor parallelism and, of experts, by
// attention data parallelism with the experts dealt out.
func parallelChoices(o *options.Options, gpu string) (dimension, error) {
	model := ""
	for _, s := range o.Settings() {
		if s.Name == "model" {
			model = s.Value
		}
	}
	fit, err := hardware.ParseFit(gpu + "/" + model)
	if err != nil {
		return nil, cli.Usagef("--gpu and --model: %v", err)
	}
	var all dimension
	for tp := 1; tp <= fit.GPU.NodeSize() && tp <= 8; tp *= 2 {
		all = append(all, []plan.Setting{{Name: "tp", Value: strconv.Itoa(tp)}})
	}
	if fit.Model.MoE != nil && fit.GPU.NodeSize() >= 8 {
		all = append(all, []plan.Setting{{Name: "tp", Value: "1"}, {Name: "dp", Value: "8"}, {Name: "ep", Value: "8"}})
	}
	return all, nil
}

// engineOf returns the engine that is named, "" for the default.
func engineOf(o *options.Options) string {
	for _, s := range o.Settings() {
		if s.Name == "engine" {
			return s.Value
		}
	}
	return ""
}

// budgetChoices returns token budgets of a pass, with as many seats as a small one allows.
func budgetChoices(o *options.Options) dimension {
	name, seats, budgets := "max-num-batched-tokens", "max-num-seqs", []int{256, 512, 1024, 2048, 16384}
	var with []plan.Setting // without it prompts that exceed the budget are rejected
	switch engineOf(o) {
	case "sglang":
		name, seats = "chunked-prefill-size", ""
	case "trtllm":
		name, seats, budgets = "max-num-tokens", "", []int{1024, 2048, 4096, 16384}
		with = []plan.Setting{{Name: "enable-chunked-context", Value: "true"}}
	}
	all := dimension{nil} // the server's own
	for _, budget := range budgets {
		set := append([]plan.Setting{{Name: name, Value: strconv.Itoa(budget)}}, with...)
		if seats != "" && budget <= 1024 && o.FirstChanged(seats) == "" {
			set = append(set, plan.Setting{Name: seats, Value: "256"})
		}
		all = append(all, set)
	}
	return all
}

// listSearched returns all choices of a search.
func (f *planFlags) listSearched(o *options.Options, file string) ([]chosen, error) {
	dimensions, err := f.listDimensions(o)
	if err != nil {
		return nil, err
	}
	splits := []bool{f.topology.Value == "disaggregated"}
	if f.search.varies(o, varyTopology) || f.topology.Value == "both" {
		splits = []bool{false, true}
	}
	count := len(splits)
	for _, d := range dimensions {
		count *= len(d)
	}
	if count > mostChoices {
		return nil, cli.Usagef("--vary: %d choices, must be at most %d: --fix leaves some out", count, mostChoices)
	}
	var all []chosen
	for _, split := range splits {
		for _, settings := range combineDimensions(dimensions) {
			if split && isSmallBudget(settings) {
				continue
			}
			c, err := f.tryChoice(o, file, settings, split)
			if err != nil {
				return nil, err
			}
			c.variant.Name = strings.TrimPrefix(variantName(settings, split, len(splits) > 1), "aggregated ")
			c.variant.Changes = countChanges(settings, split)
			c.variant.Kind = kindOf(settings, split)
			all = append(all, c)
		}
	}
	return all, nil
}

// countChanges returns in how much settings depart from what people run first: an engine's own budget, one pool.
func countChanges(settings []plan.Setting, split bool) int {
	n := 0
	for _, s := range settings {
		switch s.Name {
		case "gpu", "tp", "dp", "ep":
		default:
			n++
		}
	}
	if split {
		n += 2
	}
	return n
}

// isSmallBudget reports whether settings have a token budget that spares decoding requests long passes, which workers that
// only decode do not have.
func isSmallBudget(settings []plan.Setting) bool {
	return slices.ContainsFunc(settings, func(s plan.Setting) bool {
		n, err := strconv.Atoi(s.Value)
		return slices.Contains([]string{"max-num-batched-tokens", "chunked-prefill-size", "max-num-tokens"}, s.Name) && err == nil && n < 8192
	})
}

// combineDimensions returns one choice of each dimension, in all ways.
func combineDimensions(dimensions []dimension) [][]plan.Setting {
	all := [][]plan.Setting{nil}
	for _, d := range dimensions {
		var next [][]plan.Setting
		for _, before := range all {
			for _, set := range d {
				next = append(next, append(slices.Clone(before), set...))
			}
		}
		all = next
	}
	return all
}

// kindOf returns what clusters of a kind have in common: what they run on, and how they are divided.
func kindOf(settings []plan.Setting, split bool) string {
	var parts []string
	for _, s := range settings {
		switch s.Name {
		case "gpu", "tp", "dp", "ep", "quantization":
			parts = append(parts, s.Name+"="+s.Value)
		}
	}
	if split {
		parts = append(parts, "disaggregated")
	}
	return strings.Join(parts, " ")
}

// narrowChoices finds the choices that are planned in full, and makes the runner one of them alone.
func (f *planFlags) narrowChoices(ctx context.Context, r *planRunner) (*searched, error) {
	c := plan.Narrowing{
		Config: plan.Config{Run: r.run, Most: f.most, Cores: f.cores, Progress: r.env.show},
		Keep:   mostKinds, Parts: r.listParts(), Hard: r.hardSample(),
		Watch: func(at plan.Stage) { r.env.watch(r.stageOf(at)) },
		Stop:  func(replays int) bool { return f.search.replays > 0 && replays >= f.search.replays },
	}
	for _, choice := range r.choices {
		c.Variants = append(c.Variants, choice.variant)
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if f.search.budget > 0 {
		within, cancel = context.WithDeadline(ctx, f.search.begun.Add(f.search.budget))
	}
	found, err := plan.Narrow(within, c)
	cancel()
	if found == nil {
		return nil, err
	}
	if ctx.Err() == nil {
		err = nil // the time is over, and the plan continues with what was found
	}
	for i := range r.choices {
		r.choices[i].variant.Refused = c.Variants[i].Refused
	}
	if refused := refuseSearched(c.Variants); refused != nil {
		return nil, refused
	}
	s := &searched{Narrowed: found, choices: slices.Clone(r.choices)}
	if err != nil {
		return s, err
	}
	if len(found.Kept) == 0 && found.Nearest == nil && found.Stopped {
		return nil, fmt.Errorf("--time-budget=%v: the search of %s ended before its first replay: more time is required", f.search.budget, countChoices(len(r.choices)))
	}
	if len(found.Kept) == 0 && found.Nearest != nil {
		r.keep([]int{found.Nearest.Variant})
	}
	if len(found.Kept) > 0 {
		r.keep(found.Kept)
		for i, m := range found.At {
			r.choices[i].variant.Near = m.Shape
		}
	}
	return s, nil
}

// sessionsOfFirst is about how many sessions the stretch of the first round has.
const sessionsOfFirst = 500

// listParts returns the stretches of the rounds of a search: from one of a few hundred sessions to all.
func (r *planRunner) listParts() []int {
	first := 0
	for i := range r.samples {
		if r.samples[i] != nil {
			first = max(first, bits.Len(uint(len(r.samples[i][0]().Sessions)/sessionsOfFirst))-1)
		}
	}
	return slices.Compact([]int{max(first, 0), max(first, 0) / 2, 0})
}

// searched is what came of a search.
type searched struct {
	*plan.Narrowed
	choices []chosen // all of them
}

// refuseSearched returns the reasons where no choice can run, each once.
func refuseSearched(all []plan.Variant) error {
	var reasons []string
	for i := range all {
		if all[i].Refused == nil {
			return nil
		}
		if text := all[i].Refused.Error(); !slices.Contains(reasons, text) {
			reasons = append(reasons, text)
		}
	}
	if len(reasons) == 1 {
		return all[0].Refused
	}
	return cli.Usagef("no choice of settings can run: %s", strings.Join(reasons, "; "))
}

// keep leaves some of the choices.
func (r *planRunner) keep(kept []int) {
	choices, samples, factors := r.choices, r.samples, r.factors
	r.choices, r.samples, r.factors = nil, nil, nil
	var tasks []plan.Task
	for _, i := range kept {
		r.choices, r.samples, r.factors = append(r.choices, choices[i]), append(r.samples, samples[i]), append(r.factors, factors[i])
		if r.journal != nil {
			tasks = append(tasks, r.journal.tasks[i])
		}
	}
	if r.journal != nil {
		r.journal.tasks = tasks
	}
}

// hardSample returns the resample that a choice must meet in to be worth a plan: that of which the passes take longest
// among as many as the target asks for; 0 without resamples.
func (r *planRunner) hardSample() int {
	f := r.flags
	if f.resamples == 0 || f.confidence == 0 {
		return 0
	}
	i := slices.IndexFunc(r.factors, func(of []float64) bool { return of != nil })
	if i < 0 {
		return 0
	}
	order := make([]int, f.resamples)
	for k := range order {
		order[k] = k + 1
	}
	factors := r.factors[i]
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := factors[a-1], factors[b-1]; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	need := int(math.Ceil(f.confidence*float64(f.resamples) - 1e-9))
	return order[max(need, 1)-1]
}

// describeNext returns lines on the best choices of other kinds, which were not planned in full.
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
		gpus, hourly := m.Shape.Size()*max(1, c.variant.GPUs), ""
		if c.variant.Price > 0 {
			hourly = fmt.Sprintf(", %.2f an hour", c.variant.Price*float64(gpus))
		}
		lines = append(lines, fmt.Sprintf("%s (%s%s), %s: %s", m.Shape, countGPUs(gpus), hourly, c.variant.Name, strings.Join(values, ", ")))
	}
	return lines
}

// formatInterrupted is what an interrupted search has found.
func (s *searched) formatInterrupted() string {
	lines := s.describeNext(0)
	if len(lines) == 0 {
		return fmt.Sprintf("Interrupted after %d replays: nothing meets the objectives so far\n", s.Replays)
	}
	return terminal.WrapText(fmt.Sprintf("Interrupted after %d replays. Best so far, in a hard resample:\n  %s\n", s.Replays, strings.Join(lines, "\n  ")), 4)
}

// describe returns lines on what was searched and what was left out, by kind.
func (s *searched) describe() []string {
	lines := []string{fmt.Sprintf("Searched: %d choices of settings, in %d replays of the busiest stretches", len(s.choices), s.Replays)}
	if s.Stopped {
		lines[0] += ", which ended early (--time-budget, --replays)"
	}
	type family struct {
		count int
		best  *plan.Left
	}
	families, names := map[string]*family{}, []string(nil)
	for i := range s.Left {
		l := &s.Left[i]
		kind := s.choices[l.Variant].variant.Kind
		if kind == "" {
			kind = "others"
		}
		x := families[kind]
		if x == nil {
			x = &family{}
			families[kind], names = x, append(names, kind)
		}
		x.count++
		if l.At != nil && (x.best == nil || s.burdenOf(l) < s.burdenOf(x.best)) {
			x.best = l
		}
	}
	for _, kind := range names {
		x := families[kind]
		line := fmt.Sprintf("%s: %s left out, ", kind, countChoices(x.count))
		if x.best == nil {
			if line += "none of which meets"; len(s.Kept) > 0 {
				line += " with twice what the best needs"
			}
		} else {
			line += fmt.Sprintf("the best of which needs %s in %s", countGPUs(s.gpusOf(x.best)), nameStretch(x.best.Part))
		}
		lines = append(lines, line)
	}
	return append(lines, s.describeRefused()...)
}

// describeRefused returns a line for each kind of which choices cannot run, with the reason of the first.
func (s *searched) describeRefused() []string {
	count, reason, kinds := map[string]int{}, map[string]string{}, []string(nil)
	for i := range s.choices {
		v := &s.choices[i].variant
		if v.Refused == nil {
			continue
		}
		if count[v.Kind]++; count[v.Kind] == 1 {
			reason[v.Kind], _, _ = strings.Cut(v.Refused.Error(), ": of ")
			kinds = append(kinds, v.Kind)
		}
	}
	lines := make([]string, len(kinds))
	for i, kind := range kinds {
		lines[i] = fmt.Sprintf("%s: %s cannot run: %s", kind, countChoices(count[kind]), reason[kind])
	}
	return lines
}

// describeNearest returns the nearest that any choice comes to the objectives where none meets, "" otherwise.
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

// searchDocument is a search for programs.
type searchDocument struct {
	Choices int               `json:"choices"`
	Replays int               `json:"replays"` // of stretches of a resample
	Stopped bool              `json:"stopped"` // by --time-budget or --replays
	Found   []choiceDocument  `json:"found"`   // the best of each kind, the best first; those planned in full are among the variants
	Left    []choiceDocument  `json:"left_out"`
	Refused []refusedDocument `json:"cannot_run"`
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
	MostGPUs   int             `json:"most_gpus,omitempty"` // that were allowed, where none met
}

type refusedDocument struct {
	Settings string `json:"settings"`
	Reason   string `json:"reason"`
}

// document returns a search for programs.
func (s *searched) document() *searchDocument {
	d := &searchDocument{Choices: len(s.choices), Replays: s.Replays, Stopped: s.Stopped, Found: []choiceDocument{}, Left: []choiceDocument{}, Refused: []refusedDocument{}}
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
		d.MostGPUs = most.Size() * max(1, v.GPUs)
		return d
	}
	d.Workers, d.Prefill, d.Decode, d.GPUs = at.Shape.Workers, at.Shape.Prefill, at.Shape.Decode, at.Shape.Size()*max(1, v.GPUs)
	d.PerHour = v.Price * float64(d.GPUs)
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

// nameStretch names a part of the trace.
func nameStretch(part int) string {
	if part == 0 {
		return "a hard resample"
	}
	return fmt.Sprintf("the busiest 1/%d of a hard resample", 1<<part)
}

func (s *searched) gpusOf(l *plan.Left) int {
	return l.At.Shape.Size() * max(1, s.choices[l.Variant].variant.GPUs)
}

func (s *searched) burdenOf(l *plan.Left) float64 {
	return float64(s.gpusOf(l)) * max(s.choices[l.Variant].variant.Price, 1e-9)
}
