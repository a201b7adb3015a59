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

// offer is a file that a knob may name. Only the command line can offer files, never a page.
type offer struct{ flag, path string }

// OfferFlags returns the flags for which files can be offered.
func OfferFlags() []string { return []string{"router-policy", "faults", "autoscale", "classes"} }

// Offer permits the knob of a flag to name the file at path. Each run reads the file again. Offer must be called
// before the first question.
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

// Knobs returns all knobs. Knobs for files have the offered files as choices.
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
