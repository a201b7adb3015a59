package reference

// wake is a step and the slot that wakes in it, in one word that sorts by step.
type wake uint64

func (w wake) step() int64 { return int64(w >> 24) }
func (w wake) slot() slot  { return slot(w & (1<<24 - 1)) }

// wakes is a binary heap. Entries of requests that are no longer steady stay
// until they come up and are passed over then.
type wakes []wake

func (h *wakes) push(step int64, s slot) {
	w := wake(step)<<24 | wake(s)
	*h = append(*h, w)
	a := *h
	i := len(a) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if a[parent] <= w {
			break
		}
		a[i] = a[parent]
		i = parent
	}
	a[i] = w
}

func (h *wakes) pop() {
	a := *h
	n := len(a) - 1
	w := a[n]
	*h = a[:n]
	a = a[:n]
	if n == 0 {
		return
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && a[child+1] < a[child] {
			child++
		}
		if w <= a[child] {
			break
		}
		a[i] = a[child]
		i = child
	}
	a[i] = w
}
