package explore

import (
	"fmt"
	"os"
	"slices"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/file"
)

// offer is a file that a knob may name: one of the command line, never one of a page.
type offer struct{ flag, path string }

// OfferFlags returns the flags that take files in a session.
func OfferFlags() []string { return []string{"router-policy", "faults", "autoscale", "classes"} }

// Offer lets the knob of a flag name the file at path, which is read anew for each run. It
// comes before anything is asked.
func (s *Session) Offer(flag, path string) error {
	if slices.Contains(s.offered, offer{flag, path}) {
		return cli.Usagef("--%s: %s is given twice", flag, path)
	}
	stat, err := file.Stat(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	if !stat.Mode().IsRegular() {
		return cli.Usagef("--%s: %s: must be a file", flag, path)
	}
	if flag == "faults" && options.IsFaultList(path) || flag == "autoscale" && options.IsAutoscaler(path) {
		return cli.Usagef("--%s: %s: must be a file, named as ./%s", flag, path, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	if flag == "router-policy" {
		if _, err := files.ParsePolicy(path, text); err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
	}
	s.offered = append(s.offered, offer{flag, path})
	return nil
}

// Knobs returns all that may be turned, with the files that were offered.
func (s *Session) Knobs() []Knob {
	files := map[string][]string{}
	for _, o := range s.offered {
		files[o.flag] = append(files[o.flag], o.path)
	}
	all := slices.DeleteFunc(slices.Clone(s.knobs()), func(k Knob) bool { return k.File && files[k.Flag] == nil && !k.hasText() })
	for i := range all {
		if k := &all[i]; k.File {
			k.Choices = files[k.Flag]
		}
	}
	return all
}
