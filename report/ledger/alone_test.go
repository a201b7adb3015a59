package ledger

import (
	"math"
	"testing"

	"github.com/replay-llm/replay/scheduler/timing"
)

// byContext is a timing model that claims to depend on the context and does not.
type byContext struct{ timing.Polynomial }

func (byContext) ByContext() bool { return true }

// The sums by block equal the sums of single steps.
func TestAloneByBlocks(t *testing.T) {
	for _, block := range []int{1, 2, 16, 512} {
		fast := &Engine{Clock: timing.Clock{Model: timing.Polynomial{}}, Blocks: 64, Block: block, Whole: true}
		plain := &Engine{Clock: timing.Clock{Model: byContext{}}, Blocks: 64, Block: block, Whole: true}
		for _, tokens := range []int{0, 1, 2, block, block + 1, 3 * block, 5, 70 * block, 71*block + 3} {
			for _, input := range []int{0, 1, block - 1, block, block + 1, 2*block + 1, 80 * block} {
				got, want := fast.Alone(input, tokens), plain.Alone(input, tokens)
				if math.Abs(got-want) > 1e-9*want || want <= 0 && tokens > 0 {
					t.Errorf("blocks of %d, %d tokens after %d: %v ms, one by one %v", block, tokens, input, got, want)
				}
			}
		}
	}
}
