package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
)

// command is a command line to run.
type command struct {
	index int
	verb  string
	args  []string
	extra map[string]string // additional input files, by name
}

// target is a flag of a verb for which command lines are drawn.
type target struct {
	verb *verb
	flag string
}

func (t target) name() string { return t.verb.name + " --" + t.flag }

// drawer draws command lines. A command line depends on the seed, its index, and the corpus lines that succeed with
// the old program.
type drawer struct {
	seed    uint64
	verbs   []*verb
	active  []*verb             // verbs with lines
	inputs  []string            // paths of files and recorded runs
	targets []target            // one target for each flag name, then the remaining flags of all verbs
	lines   map[*verb][][]part  // lines of the corpus that succeed
	donors  map[string][][]part // lines of all verbs, by flag
	values  *values
	drawn   map[string]bool
}

// newDrawer prepares the drawing.
func newDrawer(seed uint64, verbs []*verb, c *corpus, r *rig) (*drawer, error) {
	d := &drawer{seed: seed, verbs: verbs, inputs: r.inputs, drawn: map[string]bool{},
		lines: map[*verb][][]part{}, donors: map[string][][]part{}}
	given := map[string][]string{}
	d.values = &values{given, r.inputs, c.keys, r.template}
	var of []*verb
	var lines [][]part
	for i, line := range c.lines {
		v, words := findVerb(verbs, line)
		if v == nil {
			continue
		}
		parts := v.split(words)
		if !slices.ContainsFunc(parts, func(p part) bool { return unfitFlags()[p.flag] != "" }) {
			d.settleRuns(rand.New(rand.NewPCG(uint64(i), 1)), parts)
			of, lines = append(of, v), append(lines, parts)
		}
	}
	works, err := r.try(len(lines), func(i int) []string { return append(of[i].words(), joinParts(lines[i])...) })
	if err != nil {
		return nil, err
	}
	for i, parts := range lines {
		if !works[i] {
			continue
		}
		d.lines[of[i]] = append(d.lines[of[i]], parts)
		for _, p := range parts {
			if p.flag != "" {
				d.donors[p.flag] = append(d.donors[p.flag], parts)
				given[p.flag] = append(given[p.flag], p.value)
			}
		}
	}
	d.aim()
	return d, nil
}

// aim sets the targets in random order, and the verbs with lines.
func (d *drawer) aim() {
	var all, rest []target
	for _, v := range d.verbs {
		if len(d.lines[v]) > 0 {
			d.active = append(d.active, v)
		}
		for _, name := range v.names {
			all = append(all, target{v, name})
		}
	}
	rng := rand.New(rand.NewPCG(d.seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	seen := map[string]bool{}
	for _, t := range all {
		if seen[t.flag] {
			rest = append(rest, t)
		} else {
			d.targets = append(d.targets, t)
		}
		seen[t.flag] = true
	}
	d.targets = append(d.targets, rest...)
}

// coverage returns the number of drawn flags, and the flags that no command line had.
func (d *drawer) coverage() (drawn string, missing []string) {
	names, pairs := map[string]bool{}, 0
	for _, t := range d.targets {
		if d.drawn[t.name()] {
			pairs++
		}
		if !d.drawn[t.flag] && !names[t.flag] {
			missing = append(missing, t.flag)
		}
		names[t.flag] = true
	}
	slices.Sort(missing)
	return fmt.Sprintf("%d of %d; of the flags of each verb, %d of %d", len(names)-len(missing), len(names), pairs, len(d.targets)), missing
}

// draw returns the command line of an index. Of ten command lines, three are for the targets in turn, six vary a
// corpus line, and one requests help.
func (d *drawer) draw(i int) *command {
	s := &sketch{drawer: d, Rand: rand.New(rand.NewPCG(d.seed, uint64(i)+1)), extra: map[string]string{}}
	c := &command{index: i, extra: s.extra}
	switch k := i % 10; {
	case k == 9:
		c.verb = "help"
		c.args = s.drawHelp()
		return c
	case k%2 == 0 && k < 6:
		t := d.targets[(i/10*3+k/2)%len(d.targets)]
		s.verb = t.verb
		s.drawLine(t.flag)
	default:
		s.verb = pickFrom(s.Rand, d.active)
		s.drawLine("")
	}
	c.verb, c.args = s.verb.name, append(s.verb.words(), joinParts(s.parts)...)
	for _, name := range s.named {
		if slices.Contains(s.verb.names, name) {
			d.drawn[name], d.drawn[target{s.verb, name}.name()] = true, true
		}
	}
	return c
}

// sketch is a command line during its drawing.
type sketch struct {
	*drawer
	*rand.Rand
	verb  *verb
	parts []part
	extra map[string]string
	named []string // flags of the command line, including those in a config file
}

func pickFrom[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }

// chance returns true with probability 1/n.
func (s *sketch) chance(n int) bool { return s.IntN(n) == 0 }

// drawHelp returns a command line that requests help.
func (s *sketch) drawHelp() []string {
	v := pickFrom(s.Rand, s.verbs)
	words, flag := v.words(), "--"
	if len(v.names) > 0 {
		flag += pickFrom(s.Rand, v.names)
	}
	switch s.IntN(8) {
	case 0, 1:
		return append(words, "--help-all")
	case 2, 3:
		return append(words, "--help")
	case 4:
		return append([]string{"help"}, words...)
	case 5:
		return append(append([]string{"__complete"}, words...), pickFrom(s.Rand, []string{"", "--", "--r", "r"}))
	case 6:
		return append(append([]string{"__complete"}, words...), flag, "")
	}
	return pickFrom(s.Rand, [][]string{{"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}, {"completion", "powershell"},
		{misspellWord(s.Rand, v.name)}})
}

// drawLine draws a line with a flag. If the flag is "", drawLine selects a flag of the corpus line.
func (s *sketch) drawLine(flag string) {
	s.drawBase(flag)
	if flag == "" && len(s.parts) > 0 {
		flag = pickFrom(s.Rand, s.parts).flag
	}
	wrong := s.chance(6)
	if slices.Contains(s.verb.names, flag) {
		s.setFlag(flag, wrong)
	}
	if s.chance(8) && len(s.verb.names) > 0 {
		s.setFlag(pickFrom(s.Rand, s.verb.names), false)
	}
	for _, often := range []string{"compat", "digest", "out", "output", "engine-args", "report-json"} {
		if slices.Contains(s.verb.names, often) && s.chance(12) {
			s.setFlag(often, s.chance(8))
		}
	}
	if wrong && s.chance(2) {
		s.spoil()
	}
	s.changeFiles()
	for _, p := range s.parts {
		s.named = append(s.named, p.flag)
	}
	if slices.Contains(s.verb.names, "config") && s.chance(10) {
		s.writeConfig()
	}
}

// drawBase selects the first version of a line. drawBase prefers a corpus line of this verb with the flag. Otherwise
// drawBase combines a line of this verb with the parts of another verb's line with the flag.
func (s *sketch) drawBase(flag string) {
	own := s.lines[s.verb]
	with := slices.DeleteFunc(slices.Clone(own), func(parts []part) bool {
		return !slices.ContainsFunc(parts, func(p part) bool { return p.flag == flag })
	})
	switch {
	case flag != "" && len(with) > 0 && !s.chance(5):
		s.parts = slices.Clone(pickFrom(s.Rand, with))
		return
	case len(own) > 0:
		s.parts = slices.Clone(pickFrom(s.Rand, own))
	}
	if flag == "" {
		return
	}
	pooled, bare := poolOf(flag)
	if donors := append(slices.Clone(s.donors[flag]), s.donors[bare]...); len(donors) > 0 {
		for _, p := range pickFrom(s.Rand, donors) {
			if s.verb.flags.Lookup(p.flag) != nil && p.flag != bare && !slices.Contains([]string{"out", "output", "config", "workers"}, p.flag) {
				s.put(p)
			}
		}
	}
	if pooled != "" && s.verb.flags.Lookup("prefill-workers") != nil {
		s.parts = slices.DeleteFunc(s.parts, func(p part) bool { return p.flag == "workers" })
		s.put(part{flag: "prefill-workers", value: "1"})
		s.put(part{flag: "decode-workers", value: "2"})
	}
}

// poolOf returns the pool prefix of a flag, and the flag without this prefix.
func poolOf(flag string) (pool, bare string) {
	for _, pool := range []string{"prefill-", "decode-"} {
		if bare, ok := strings.CutPrefix(flag, pool); ok {
			return pool, bare
		}
	}
	return "", flag
}

// put replaces a flag with the same name, or adds the flag.
func (s *sketch) put(p part) {
	at := slices.IndexFunc(s.parts, func(q part) bool { return q.flag == p.flag })
	if at >= 0 && !s.chance(15) {
		s.parts[at] = p
		return
	}
	s.parts = append(s.parts, p)
}

// setFlag sets a flag to a valid or a wrong value.
func (s *sketch) setFlag(name string, wrong bool) {
	value, bare := s.values.draw(s.Rand, s.verb.flags.Lookup(name), wrong)
	if !wrong && s.chance(3) && slices.ContainsFunc(s.parts, func(p part) bool { return p.flag == name }) {
		return // keeps the value of the line
	}
	s.put(part{name, value, bare})
}

// spoil makes the syntax of the line wrong.
func (s *sketch) spoil() {
	at := s.IntN(len(s.parts) + 1)
	if at == len(s.parts) || s.chance(4) {
		s.parts = slices.Insert(s.parts, at, part{value: pickFrom(s.Rand, []string{"extra", "none.jsonl", "-", ""})})
		return
	}
	switch p := &s.parts[at]; {
	case s.chance(3):
		s.parts = slices.Delete(s.parts, at, at+1)
	case s.chance(2) && p.flag != "":
		p.flag = misspellWord(s.Rand, p.flag)
	default:
		p.value, p.bare = "", p.flag != ""
	}
}

// settleRuns replaces missing recorded runs by existing runs.
func (d *drawer) settleRuns(rng *rand.Rand, parts []part) {
	for i, p := range parts {
		first, _, _ := strings.Cut(p.value, "/")
		if p.flag == "" && slices.Contains([]string{"out", "bin"}, first) && !slices.Contains(d.inputs, p.value) {
			parts[i].value = "runs/" + string(rune('a'+rng.IntN(len(recordedRuns()))))
		}
	}
}

// changeFiles replaces some files by changed copies.
func (s *sketch) changeFiles() {
	for i, p := range s.parts {
		kind := filepath.Ext(p.value)
		if slices.Contains(s.inputs, p.value) && slices.Contains([]string{".yaml", ".json", ".jsonl"}, kind) && s.chance(20) {
			name := fmt.Sprintf("changed%d%s", i, kind)
			s.extra[name] = s.values.changed(s.Rand, p.value)
			s.parts[i].value = name
		}
	}
}

// writeConfig moves half of the flags to a config file.
func (s *sketch) writeConfig() {
	lines := map[string]string{}
	s.parts = slices.DeleteFunc(s.parts, func(p part) bool {
		if p.flag == "config" {
			return true
		}
		if p.flag == "" || lines[p.flag] != "" || s.chance(2) {
			return false
		}
		value := "'" + strings.ReplaceAll(p.value, "'", "''") + "'"
		if p.bare {
			value = "true"
		}
		lines[p.flag] = p.flag + ": " + value + "\n"
		return true
	})
	text := ""
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		text += lines[name]
	}
	if s.chance(4) {
		text = changeText(s.Rand, text)
	}
	s.extra["config0.yaml"] = text
	s.parts = append(s.parts, part{flag: "config", value: "config0.yaml"})
	s.named = append(s.named, "config")
}
