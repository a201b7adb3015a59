package sweeps

import (
	"maps"
	"slices"
	"sync"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// warnings collects different warnings about cells. warnings is safe for concurrent use.
type warnings struct {
	mutex sync.Mutex
	seen  map[string]bool
}

func (w *warnings) add(text string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[text] = true
}

// print writes the warnings in alphabetical order.
func (w *warnings) print(s cli.Streams) {
	for _, text := range slices.Sorted(maps.Keys(w.seen)) {
		s.Warn(text)
	}
}
