package main

import "fmt"

// drawPasses draws the passes of one worker, and the tokens that they compute for each request.
func drawPasses(r *recording) string {
	p := &picture{end: r.end}
	p.text(left, 18, "head", "One worker, at most 512 tokens a pass")
	p.legend(38, [2]string{"wait", "waits"}, [2]string{"c0", "prompt tokens computed"}, [2]string{"t0", "one answer token"}, [2]string{"run", "alike: replayed at once"})
	y := 52.0
	p.text(left-8, y+16, "name", "passes")
	for i, x := range r.passes {
		class := "pass"
		if x.inRun {
			class = "run"
		}
		p.box(y, lane, span{x.from, x.to, 0}, label{class, fmt.Sprint(x.prompt + x.answers), fmt.Sprintf("pass %d: %d prompt tokens, %d answer tokens, %.2f ms", i+1, x.prompt, x.answers, x.to-x.from)})
	}
	for i, q := range r.requests {
		y += lane + 8
		p.text(left-8, y+16, "name", fmt.Sprintf("request %d", q.id+1))
		found := ""
		if q.overlap > 0 {
			found = fmt.Sprintf("%d of %d blocks are cached", q.overlap, q.blocks)
		}
		if begins := q.prefills[0].from; begins > q.arrived {
			p.box(y, lane, span{q.arrived, begins, 0}, label{"wait", found, fmt.Sprintf("waits %.2f ms", begins-q.arrived)})
		}
		p.arrival(y+lane/2, q.arrived)
		for _, s := range q.prefills {
			p.box(y, lane, s, label{fmt.Sprintf("c%d", i%4), fmt.Sprint(s.tokens), fmt.Sprintf("%d prompt tokens", s.tokens)})
		}
		for _, s := range q.tokens {
			p.box(y, lane, s, label{fmt.Sprintf("t%d", i%4), "1", "one answer token"})
		}
	}
	p.axis(y+lane+10, 20)
	return p.finish(y+lane+38, "The passes of one worker", "Time runs to the right. The first lane has the passes of a worker with the tokens that each computes, the other lanes what they do for each request: it waits, chunks of its prompt are computed, it gains one token a pass.")
}
