package options

import (
	"fmt"
	"os"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/caches"
	"github.com/replay-llm/replay/replay/harness"
)

// fillWarm sets the initial cache contents of workers in spec.
func (c *cluster) fillWarm(spec *replay.Spec) error {
	path := c.warm
	switch {
	case !c.Changed("warm-caches"):
		return nil
	case path == "":
		return c.Refuse("warm-caches", "the name of a file that --save-caches wrote")
	}
	if err := spec.CheckCacheFiles(); err != nil {
		return cli.Usagef("--warm-caches: %v", err)
	}
	in, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("--warm-caches: %w", err)
	}
	defer in.Close()
	spec.Warm, err = caches.Read(in, path)
	return err
}

// SavedCaches is a flag for the path and the time of saving caches.
type SavedCaches struct {
	Path string
	When harness.SaveCaches
	text string
}

func (s *SavedCaches) String() string { return s.text }
func (s *SavedCaches) Type() string   { return "file" }

func (s *SavedCaches) Set(text string) error {
	path, at, timed := strings.Cut(text, ",at=")
	if path == "" {
		return fmt.Errorf("must be the name of a file, as caches.jsonl or caches.jsonl,at=30m")
	}
	*s = SavedCaches{Path: path, text: text}
	if !timed {
		return nil
	}
	when, err := cli.ParseInstant(at)
	if err != nil || when <= 0 {
		return fmt.Errorf("must be a time above 0 behind at=, as 30m")
	}
	s.When.At = when
	return nil
}

// checkSaved returns an error if the caches of spec cannot be saved.
func (o *Options) checkSaved(spec *replay.Spec) error {
	if o.Outputs.Caches.Path == "" {
		return nil
	}
	if err := spec.CheckCacheFiles(); err != nil {
		return cli.Usagef("--save-caches: %v", err)
	}
	if at := o.Outputs.Caches.When.At; spec.Until > 0 && at > spec.Until {
		return cli.Usagef("--save-caches=%s: the run ends before, at %v ms", &o.Outputs.Caches, float64(spec.Until))
	}
	return nil
}
