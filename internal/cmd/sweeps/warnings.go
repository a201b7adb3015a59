package sweeps

import (
	"maps"
	"slices"
	"sync"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// warnings collects what cells are warned of, each text once. Cells run at the same time may add to it.
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

// print writes the warnings, in the order of their texts.
func (w *warnings) print(s cli.Streams) {
	for _, text := range slices.Sorted(maps.Keys(w.seen)) {
		s.Warn(text)
	}
}
