package kvevents

// step is a batch that was published: its sequence number and its bytes.
type step struct {
	sequence uint64
	payload  []byte
}

// ring keeps the steps published last. Their sequence numbers follow each other.
type ring struct {
	most  int // steps
	bytes int // of the payloads kept
	steps []step
}

// maxRing bounds the payloads kept, in bytes; the latest step is always kept.
const maxRing = 256 << 20

// addStep appends a step, after it has removed the oldest ones if there is no room.
func (r *ring) addStep(s step) {
	r.bytes += len(s.payload)
	for len(r.steps) == r.most || len(r.steps) > 0 && r.bytes > maxRing {
		r.bytes -= len(r.steps[0].payload)
		r.steps[0] = step{}
		r.steps = r.steps[1:]
	}
	r.steps = append(r.steps, s)
}

// oldestSequence returns the first sequence number kept.
func (r *ring) oldestSequence() (uint64, bool) {
	if len(r.steps) == 0 {
		return 0, false
	}
	return r.steps[0].sequence, true
}

// stepsFrom returns the steps kept from a sequence number on.
func (r *ring) stepsFrom(sequence uint64) []step {
	oldest, ok := r.oldestSequence()
	if !ok || sequence >= oldest+uint64(len(r.steps)) {
		return nil
	}
	return r.steps[max(sequence, oldest)-oldest:]
}
