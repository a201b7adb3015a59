package reference

import (
	"math"
	"strings"
	"testing"
)

// TestWakes checks that wakes store all slots and steps up to 2^33-1, and that larger steps panic.
func TestWakes(t *testing.T) {
	for _, step := range []int64{0, 1, 1<<33 - 1} {
		for _, s := range []slot{0, 1, 1 << 24, math.MaxInt32} {
			if w := newWake(step, s); w.step() != step || w.slot() != s {
				t.Errorf("step %d, slot %d: %d, %d", step, s, w.step(), w.slot())
			}
		}
	}
	if newWake(3, math.MaxInt32) >= newWake(4, 0) {
		t.Error("wakes do not sort by step")
	}
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "step 8589934592, must be") {
			t.Errorf("step 2^33: %q", text)
		}
	}()
	newWake(1<<33, 0)
}
