package options

import (
	"fmt"
	"os"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/replay"
)

// fillClasses sets the classes of requests in spec.
func (in *input) fillClasses(spec *replay.Spec) error {
	path := in.classes
	if path == "" {
		return nil
	}
	if in.Reference {
		return cli.Usagef("--classes: no such flag")
	}
	text, err := os.ReadFile(path)
	if err == nil {
		spec.Classes, err = files.ParseClasses(path, text)
	}
	if err != nil {
		return fmt.Errorf("--classes: %w", err)
	}
	return nil
}
