package options

import (
	"fmt"
	"os"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/replay"
)

// IsFaultList reports whether the value of --faults is the contents of a file, and not its path.
func IsFaultList(value string) bool {
	return strings.HasPrefix(value, "[") || strings.HasPrefix(value, "{")
}

// fillFaults sets the faults in spec.
func (c *cluster) fillFaults(spec *replay.Spec) error {
	path := c.faults
	if path == "" {
		return nil
	}
	text, err := []byte(path), error(nil)
	if IsFaultList(path) {
		path = "--faults"
	} else if text, err = os.ReadFile(path); err != nil {
		return fmt.Errorf("--faults: %w", err)
	}
	if spec.Faults, err = files.ParseFaults(path, text, spec.Disaggregated()); err != nil {
		return err
	}
	if err := spec.Topology.CheckFaults(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
