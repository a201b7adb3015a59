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
	head  int // of the oldest
	n     int
}

// maxRing bounds the payloads kept, in bytes; the latest step is always kept.
const maxRing = 256 << 20

func newRing(most int) *ring { return &ring{most: most} }

// add puts a step in, and takes out the oldest where there is no room for it.
func (r *ring) add(s step) {
	r.bytes += len(s.payload)
	for r.n == r.most || r.n > 0 && r.bytes > maxRing {
		r.drop()
	}
	if r.n == len(r.steps) {
		r.grow()
	}
	r.steps[(r.head+r.n)%len(r.steps)] = s
	r.n++
}

// drop takes the oldest step out.
func (r *ring) drop() {
	r.bytes -= len(r.steps[r.head].payload)
	r.steps[r.head] = step{}
	r.head = (r.head + 1) % len(r.steps)
	r.n--
}

// grow makes room for more steps.
func (r *ring) grow() {
	wide := make([]step, min(r.most, max(16, 2*len(r.steps))))
	n := copy(wide, r.steps[r.head:])
	copy(wide[n:], r.steps[:r.head])
	r.steps, r.head = wide, 0
}

// oldest is the first sequence number kept.
func (r *ring) oldest() (uint64, bool) {
	if r.n == 0 {
		return 0, false
	}
	return r.steps[r.head].sequence, true
}

// from calls f for the steps kept from a sequence number on, in order, until f
// reports false.
func (r *ring) from(sequence uint64, f func(step) bool) {
	oldest, ok := r.oldest()
	if !ok || sequence > oldest+uint64(r.n) {
		return
	}
	for i := int(max(sequence, oldest) - oldest); i < r.n; i++ {
		if !f(r.steps[(r.head+i)%len(r.steps)]) {
			return
		}
	}
}
