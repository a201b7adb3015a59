package formats

// arena holds lists of hash ids, in pieces so that growing copies little.
type arena struct {
	ids   []uint64 // the current piece; the list being built is its tail
	start int      // of that list
}

const (
	firstPiece = 1 << 10
	lastPiece  = 1 << 16
)

func (a *arena) begin() { a.start = len(a.ids) }

func (a *arena) add(id uint64) {
	if len(a.ids) == cap(a.ids) {
		a.grow()
	}
	a.ids = append(a.ids, id)
}

// grow moves the list being built to a new piece.
func (a *arena) grow() {
	list := a.ids[a.start:]
	size := min(max(2*cap(a.ids), firstPiece), lastPiece)
	a.ids = append(make([]uint64, 0, max(size, 2*len(list))), list...)
	a.start = 0
}

// list is what was added since begin. Nothing appended to it can reach others.
func (a *arena) list() []uint64 { return a.ids[a.start:len(a.ids):len(a.ids)] }

// reset starts over in the memory of a list.
func (a *arena) reset(memory []uint64) { a.ids, a.start = memory[:0], 0 }
