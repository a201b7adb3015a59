// This example observes a running replay, and counts values that no report has: the batch sizes in which tokens are
// generated.
//
//	go run ./examples/observer
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/replay-llm/replay/examples/internal/chat"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// batches counts passes by the number of requests that get a token in them, and by whether they also compute prompts.
// batches embeds NoObserver for all other events.
type batches struct {
	harness.NoObserver
	sizes [5]batch // 0, 1 to 7, 8 to 15, 16 to 31, 32 and more
}

// batch holds the sums over passes of one batch size.
type batch struct {
	passes, tokens, withPrompts int
	time                        sim.Time
}

// Pass counts a pass, or a run of Count equal passes.
func (b *batches) Pass(_ scheduler.Role, _ sim.WorkerID, p *scheduler.Pass) {
	size := 0
	for least := 1; least <= p.Tokens && size < len(b.sizes)-1; least = max(8, 2*least) {
		size++
	}
	x := &b.sizes[size]
	x.passes += p.Count
	x.tokens += p.Count * p.Tokens
	x.time += p.End - p.Start
	if p.PrefillTokens > 0 {
		x.withPrompts += p.Count
	}
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	spec, err := chat.Spec(4, 20)
	if err != nil {
		return err
	}
	spec.Router = policy.KV
	var seen batches
	if _, err := spec.Run(context.Background(), replay.Streams{Observer: &seen}); err != nil {
		return err
	}
	fmt.Fprintln(out, "requests that gain a token    passes   mean pass   with prompts   share of tokens")
	tokens := 0
	for _, x := range seen.sizes {
		tokens += x.tokens
	}
	for i, name := range []string{"none", "1 to 7", "8 to 15", "16 to 31", "32 and more"} {
		x := seen.sizes[i]
		if x.passes > 0 {
			fmt.Fprintf(out, "%-26s %9d %8.2f ms %12.1f %% %15.1f %%\n", name, x.passes, float64(x.time)/float64(x.passes),
				100*float64(x.withPrompts)/float64(x.passes), 100*float64(x.tokens)/float64(tokens))
		}
	}
	return nil
}
