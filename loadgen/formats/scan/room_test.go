package scan

import "testing"

// Room is made for as many records as the size of the file promises, in few
// steps, and never for many times those there are.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		n           int
		size, taken int64
		want        int
	}{
		{0, 0, 0, 64}, {10, 1000, 100, 64}, {100, 0, 10_000, 200}, // not known, or too early to know
		{64, 1_000_000, 640, 512},        // eight times as many, for now
		{512, 1_000_000, 10_000, 52_224}, // some hundreds may stand for many
		{512, 90_000_000, 1000, 131_072}, // but not for any number
		{1000, 200_000, 100_000, 2040},   // as many again, and some
		{1000, 100_500, 100_000, 1125},   // the last few
		{1000, 100_000, 100_001, 2000},   // longer than it was said to be
	} {
		l := Lines{size: c.size, at: c.taken}
		if got := l.roomFor(c.n); got != c.want {
			t.Errorf("room for %d records after %d of %d bytes is %d, want %d", c.n, c.taken, c.size, got, c.want)
		}
	}
}
