package runs

import (
	"fmt"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
)

// addCaches adds the initial caches to the report, and writes the final caches if --save-caches is set.
func (r *run) addCaches() error {
	if w := r.result.Warm; w != nil {
		r.result.Report.Add(
			collector.Of("warm_blocks", w.Blocks), collector.Of("warm_workers", w.Workers),
			collector.Of("warm_blocks_evicted", w.Evicted), collector.Of("warm_workers_unused", w.Unused))
		r.lines = append(r.lines, terminal.WrapLine(describeWarm(w, r.spec.Warm.Path), 4))
	}
	if r.result.Caches == nil {
		return nil
	}
	path := r.o.Outputs.Caches.Path
	if err := collector.WriteFile(path, r.result.Caches.Write); err != nil {
		return fmt.Errorf("--save-caches: %w", err)
	}
	r.lines = append(r.lines, "Saved caches to: "+path)
	return nil
}

// describeWarm describes the initial contents of caches.
func describeWarm(w *harness.WarmStart, path string) string {
	text := fmt.Sprintf("Warm: %d KV blocks of %s cached at the start, on %d of %d workers", w.Blocks, path, w.Workers, w.Workers+w.Empty)
	if w.Evicted > 0 {
		text += fmt.Sprintf("; for %d more there was no room", w.Evicted)
	}
	if w.Unused > 0 {
		text += fmt.Sprintf("; %d workers of the file are not of this run", w.Unused)
	}
	return text
}

// savedCaches returns the time at which caches are saved, or nil.
func (r *run) savedCaches() *harness.SaveCaches {
	if c := &r.o.Outputs.Caches; c.Path != "" {
		return &c.When
	}
	return nil
}
