// Package ledger accounts for the time of each request. Every ms from its
// arrival to its last token is in exactly one of nine parts, so that the parts
// sum to its end-to-end latency; docs/explain.md defines them.
//
// Read parts.go, then book.go (which follows the passes of a run), alone.go (what a token would take alone in an
// engine), work.go (which requests computed prompts when).
package ledger

// Part is a use of a request's time.
type Part uint8

const (
	// Router is the time before a router that holds requests back placed it.
	Router Part = iota
	// Queue is the time in an engine's queue.
	Queue
	// Prefill is the prefill part of passes that computed tokens of its prompt,
	// before it ever lost its place.
	Prefill
	// The prefill part of passes that computed prompts of other requests alone, while the request had a place.
	Others
	// Recompute is the time without a place after it had one, and the prefill part
	// of passes that computed its tokens once more.
	Recompute
	// Transfer is the time its KV cache took from prefill to decode.
	Transfer
	// Alone is what its tokens would have taken to decode with no other request on the engine.
	Alone
	// Stretched is the rest of the decode parts of passes while it had a place.
	Stretched
	// FrontEnd is the time between its client and the router.
	FrontEnd

	parts = int(FrontEnd) + 1
)

// Parts are all parts, in the order of a request's life.
func Parts() []Part {
	all := []Part{FrontEnd}
	for p := Router; p < FrontEnd; p++ {
		all = append(all, p)
	}
	return all
}

// Key is the name of a part in files.
func (p Part) Key() string {
	return [...]string{"router", "queue", "prefill", "others_prefill", "recompute", "transfer", "decode_alone", "decode_stretched", "front_end"}[p]
}

// String is the name of a part for people.
func (p Part) String() string {
	return [...]string{
		"router wait", "engine queue", "own prefill", "others' prefill", "recomputation",
		"KV transfer", "decode alone", "decode stretched", "front end",
	}[p]
}

// Entry is a request's ledger: the ms of every part, none below 0.
type Entry [parts]float64

// Sum is the end-to-end latency that the parts add up to, in ms.
func (e *Entry) Sum() float64 {
	sum := 0.0
	for _, ms := range e {
		sum += ms
	}
	return sum
}
