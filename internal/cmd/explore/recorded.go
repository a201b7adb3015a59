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

// Recorded is a run in a directory that a page shows.
type Recorded struct {
	Name     string   `json:"name"`
	Digest   string   `json:"digest"`
	Settings Settings `json:"settings"`
	Carried  []string `json:"carried"` // names of settings that are not knobs
}

// NewRecorded returns the run as a Recorded. name is the name of its directory.
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

// Files returns the paths of files in settings that are not knobs. A path is the complete value, follows an @ or is
// in a list.
func (r *Recorded) Files() []string {
	var all []string
	for _, name := range r.Carried {
		all = append(all, filesIn(r.Settings[name], regexp.MustCompile(`^@?[^,=]*|[^,=@]+`))...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// filesIn returns the matches of words in a text that are paths of files.
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

// CheckFile returns an error for a file that contains the path of another file, because a page cannot open that file.
func CheckFile(name string, text []byte) error {
	for _, other := range filesIn(string(text), regexp.MustCompile("[^\\s\"'`,:\\[\\]{}()=]+")) {
		return cli.Usagef("%s: names another file, %s: must be a run with files that name no other file", name, other)
	}
	return nil
}

// Check replays the run with the trace of its settings. Check returns an error if a page cannot replay the run or if
// the digest differs from the recorded digest.
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

// usesProgram reports whether a run starts another program.
func usesProgram(spec *replay.Spec) bool {
	for _, c := range []*autoscale.Config{spec.Autoscale, spec.AutoscaleDecode} {
		if c != nil && c.Kind == autoscale.ByProgram {
			return true
		}
	}
	return policy.Is[*policy.Process](spec.Router)
}
