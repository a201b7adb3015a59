// Package ledger divides the time of each request. Every ms from its arrival to its last token is in exactly one of
// nine parts, so that the parts sum to its end-to-end latency. docs/explain.md defines the parts.
//
// Read parts.go, then book.go (which observes the passes of a run), alone.go (the time of tokens on an otherwise idle
// engine), work.go (the passes that computed each prompt).
package ledger

// Part is a part of a request's time.
type Part uint8

const (
	// Router is the time in the queue of the router.
	Router Part = iota
	// Queue is the time in the queue of an engine, before the first admission.
	Queue
	// Prefill is the prefill part of passes that computed tokens of its prompt, before its first preemption.
	Prefill
	// The prefill part of passes that computed only prompts of other requests, while the request had a seat.
	Others
	// Recompute is the time without a seat after a preemption, and the prefill part of passes that computed its
	// tokens again.
	Recompute
	// Transfer is the time of the KV transfer from the prefill to the decode worker.
	Transfer
	// Alone is the time that decoding its tokens would take if no other request were on the engine.
	Alone
	// Stretched is the time of decode parts of passes with the request, minus Alone.
	Stretched
	// FrontEnd is the time between the client and the router.
	FrontEnd

	parts = int(FrontEnd) + 1
)

// Parts returns all parts, in the order of a request's life.
func Parts() []Part {
	all := []Part{FrontEnd}
	for p := Router; p < FrontEnd; p++ {
		all = append(all, p)
	}
	return all
}

// Key returns the name of a part in files.
func (p Part) Key() string {
	return [...]string{"router", "queue", "prefill", "others_prefill", "recompute", "transfer", "decode_alone", "decode_stretched", "front_end"}[p]
}

// String returns the name of a part for texts.
func (p Part) String() string {
	return [...]string{
		"router wait", "engine queue", "own prefill", "others' prefill", "recomputation",
		"KV transfer", "decode alone", "decode stretched", "front end",
	}[p]
}

// Entry is a request's ledger: the time of every part in ms, at least 0.
type Entry [parts]float64

// Sum returns the sum of the parts, which is the end-to-end latency in ms.
func (e *Entry) Sum() float64 {
	sum := 0.0
	for _, ms := range e {
		sum += ms
	}
	return sum
}
