package main

import "fmt"

// drawRouting draws the same requests with two routers: the worker of each request, and the cached part of its
// prompt.
func drawRouting(all []*recording) string {
	p := &picture{}
	for _, r := range all {
		p.end = max(p.end, r.end)
	}
	p.legend(38, [2]string{"c0", "conversation A"}, [2]string{"c1", "B"}, [2]string{"c2", "C: prompt tokens computed"}, [2]string{"t0", "answer"})
	p.text(left, 18, "head", "Three conversations of three turns, three workers")
	y := 62.0
	for i, r := range all {
		p.text(left, y, "head", fmt.Sprintf("%s: %d prompt tokens computed", [...]string{"round robin", "KV router"}[i], computedOf(r)))
		y += 8
		for w := range 3 {
			p.text(left-8, y+16, "name", fmt.Sprintf("worker %d", w))
			for _, q := range r.requests {
				if q.worker != w {
					continue
				}
				whose := conversationOf(q)
				from := q.prefills[0].from
				title := fmt.Sprintf("conversation %c: %d of %d blocks cached", 'A'+rune(whose), q.overlap, q.blocks)
				p.box(y, lane, span{from, q.first, 0}, label{fmt.Sprintf("c%d", whose), fmt.Sprintf("%d/%d", q.overlap, q.blocks), title})
				p.box(y, lane, span{q.first, q.last, 0}, label{fmt.Sprintf("t%d", whose), "", title})
			}
			y += lane + 6
		}
		y += 22
	}
	p.text(left, y-4, "note", "5/12: five of the twelve blocks of the prompt were cached on the worker")
	p.axis(y+8, 50)
	return p.finish(y+36, "The same requests with two routers", "Time runs to the right, with a lane for each worker. Round robin sends the turns of a conversation to different workers, which compute its history again; the KV router sends them where it is cached.")
}

// conversationOf returns the conversation of a request, by the position of the request in the trace.
func conversationOf(q *request) int { return []int{0, 1, 2, 1, 2, 0, 2, 0, 1}[q.id] }

// computedOf returns the number of prompt tokens that a replay computed.
func computedOf(r *recording) (tokens int) {
	for _, q := range r.requests {
		tokens += q.computed
	}
	return tokens
}
