package kvevents

// step is a batch that was published: its sequence number and its bytes.
type step struct {
	sequence uint64
	payload  []byte
}

// ring keeps the steps published last, oldest first. Their sequence numbers
// follow each other.
type ring struct {
	steps []step
	head  int // of the oldest, once all places are taken
	size  int
}

func newRing(size int) *ring { return &ring{size: size} }

// add puts a step in, over the oldest if there is no place left.
func (r *ring) add(s step) {
	if len(r.steps) < r.size {
		r.steps = append(r.steps, s)
		return
	}
	r.steps[r.head] = s
	r.head = (r.head + 1) % r.size
}

// oldest is the first sequence number kept.
func (r *ring) oldest() (uint64, bool) {
	if len(r.steps) == 0 {
		return 0, false
	}
	return r.steps[r.head].sequence, true
}

// from calls f for the steps kept from a sequence number on, in order, until f
// reports false.
func (r *ring) from(sequence uint64, f func(step) bool) {
	oldest, ok := r.oldest()
	if !ok || sequence > oldest+uint64(len(r.steps)) {
		return
	}
	for i := int(max(sequence, oldest) - oldest); i < len(r.steps); i++ {
		if !f(r.steps[(r.head+i)%len(r.steps)]) {
			return
		}
	}
}
