package main

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
)

// drawPools draws a prefill worker, the transfers of KV caches, and a decode worker.
func drawPools(r *recording) string {
	p := &picture{end: r.end}
	p.text(left, 18, "head", "Prefill and decode apart")
	p.legend(38, [2]string{"c0", "request 1"}, [2]string{"c1", "request 2"}, [2]string{"c2", "request 3"}, [2]string{"t0", "its answer tokens"})
	for i, q := range r.requests {
		class := fmt.Sprintf("c%d", i)
		p.arrival(64, q.arrived)
		for _, s := range q.prefills {
			p.box(76, lane, s, label{class, fmt.Sprint(s.tokens), fmt.Sprintf("request %d: %d prompt tokens", i+1, s.tokens)})
		}
		y := 116 + float64(i)*(lane/2+4)
		p.box(y, lane/2, span{q.sent, q.got, 0}, label{class, "", fmt.Sprintf("request %d: its KV cache takes %.2f ms", i+1, q.got-q.sent)})
		p.text(p.x(q.got)+6, y+10, "note", fmt.Sprintf("%d tokens in %.1f ms", q.input, q.got-q.sent))
		for _, s := range q.tokens {
			p.box(206+float64(i)*(lane/2+4), lane/2, s, label{fmt.Sprintf("t%d", i), "", fmt.Sprintf("request %d: one answer token", i+1)})
		}
	}
	for _, x := range r.passes {
		if x.stage == scheduler.Decode {
			p.box(176, lane, span{x.from, x.to, 0}, label{"pass", fmt.Sprint(x.gained), fmt.Sprintf("a pass that gives %d tokens, %.2f ms", x.gained, x.to-x.from)})
		}
	}
	p.text(left-8, 68, "name", "arrivals")
	p.text(left-8, 92, "name", "prefill worker")
	p.text(left-8, 140, "name", "KV transfers")
	p.text(left-8, 192, "name", "decode passes")
	p.text(left-8, 230, "name", "tokens")
	p.axis(262, 20)
	return p.finish(290, "Prefill and decode apart", "Time runs to the right. Three requests arrive; the prefill worker computes their prompts in chunks, their KV caches travel to the decode worker, and its passes give each a token.")
}
