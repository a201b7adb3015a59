package route

import (
	"context"
	"iter"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
)

// Pair is prefill workers and decode workers: each request goes to one of the
// first, then to one of the second. With a prefill worker that can be met
// (package rendezvous), both get it at once.
type Pair struct {
	Prefill, Decode *Pool
}

// Generate sends the request to both kinds of workers. The chunks are those of the
// decode worker.
func (p *Pair) Generate(ctx context.Context, rc cancel.Context, rq *engine.Request, headers map[string]string) (iter.Seq2[*engine.Chunk, error], error) {
	first, err := p.Prefill.chooseWorker(ctx, rc, rq)
	if err != nil {
		return nil, fault.From(err)
	}
	defer first.dropChoice()
	card, _ := p.Prefill.Card(first.choice.Instance)
	r := &engine.PrefillRouter{Prefill: first, Decode: p.Decode, Host: card.RuntimeConfig.BootstrapHost, Port: card.RuntimeConfig.BootstrapPort}
	return r.Generate(ctx, rc, rq, headers)
}
