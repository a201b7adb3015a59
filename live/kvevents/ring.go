package kvevents

// step is a published batch: its sequence number and its bytes.
type step struct {
	sequence uint64
	payload  []byte
}

// ring keeps the latest steps. The sequence numbers of the steps are consecutive.
type ring struct {
	most  int // maximum number of steps
	bytes int // total size of the kept payloads
	steps []step
}

// maxRing limits the total size of the kept payloads, in bytes. The latest step is always kept.
const maxRing = 256 << 20

// addStep appends a step. addStep first removes the oldest steps if there is no space.
func (r *ring) addStep(s step) {
	r.bytes += len(s.payload)
	for len(r.steps) == r.most || len(r.steps) > 0 && r.bytes > maxRing {
		r.bytes -= len(r.steps[0].payload)
		r.steps[0] = step{}
		r.steps = r.steps[1:]
	}
	r.steps = append(r.steps, s)
}

// oldestSequence returns the first kept sequence number.
func (r *ring) oldestSequence() (uint64, bool) {
	if len(r.steps) == 0 {
		return 0, false
	}
	return r.steps[0].sequence, true
}

// stepsFrom returns the kept steps from a sequence number on.
func (r *ring) stepsFrom(sequence uint64) []step {
	oldest, ok := r.oldestSequence()
	if !ok || sequence >= oldest+uint64(len(r.steps)) {
		return nil
	}
	return r.steps[max(sequence, oldest)-oldest:]
}
