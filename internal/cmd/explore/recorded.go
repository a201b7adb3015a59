package explore

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/router/policy"
)

// Recorded is a run of a directory that a page is made of.
type Recorded struct {
	Name     string   `json:"name"`
	Digest   string   `json:"digest"`
	Settings Settings `json:"settings"`
	Carried  []string `json:"carried"` // names of settings that are no knobs
}

// NewRecorded returns the run of a directory that has this name.
func NewRecorded(name string, run *rundir.Run) (*Recorded, error) {
	all, err := options.RecordedSettings(run.Command)
	if err != nil {
		return nil, err
	}
	r := &Recorded{Name: name, Digest: run.Digest.Run, Settings: Settings{}, Carried: []string{}}
	for _, s := range all {
		r.Settings[s.Name] = s.Value
		if checkKnob(Knobs(), s.Name, s.Value) != nil {
			r.Carried = append(r.Carried, s.Name)
		}
	}
	return r, nil
}

// Files returns the names of the files that the settings which are no knobs name. A setting
// has them alone, behind an @ or in a list.
func (r *Recorded) Files() []string {
	var all []string
	for _, name := range r.Carried {
		all = append(all, filesIn(r.Settings[name], regexp.MustCompile(`^@?[^,=]*|[^,=@]+`))...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// filesIn returns the words of a text that match a pattern and are names of files.
func filesIn(text string, words *regexp.Regexp) []string {
	var all []string
	for _, word := range append(words.FindAllString(text, -1), text) {
		word = strings.TrimPrefix(word, "@")
		if stat, err := os.Stat(word); err == nil && stat.Mode().IsRegular() {
			all = append(all, word)
		}
	}
	return all
}

// CheckFile refuses a file that names another file: a page would not find it.
func CheckFile(name string, text []byte) error {
	for _, other := range filesIn(string(text), regexp.MustCompile("[^\\s\"'`,:\\[\\]{}()=]+")) {
		return cli.Usagef("%s: names another file, %s: must be a run with files that name no other file", name, other)
	}
	return nil
}

// Check replays the run with the page's trace at this path. It rejects runs that a page cannot replay, and runs with
// other results than recorded.
func (r *Recorded) Check(ctx context.Context) error {
	s := New()
	s.Carry(r.Carried...)
	if err := s.AddFile(r.Settings[options.TraceSetting]); err != nil {
		return err
	}
	a, err := s.Run(ctx, r.Settings)
	if err != nil {
		return err
	}
	if a.Digest != r.Digest {
		return cli.Usagef("replayed now it has the digest %s, and %s was recorded: it is of another version of this program, or a file that it read has changed", a.Digest, r.Digest)
	}
	return nil
}

// usesProgram reports whether a run asks another program.
func usesProgram(spec *replay.Spec) bool {
	for _, c := range []*autoscale.Config{spec.Autoscale, spec.AutoscaleDecode} {
		if c != nil && c.Kind == autoscale.ByProgram {
			return true
		}
	}
	return policy.Is[*policy.Process](spec.Router)
}
