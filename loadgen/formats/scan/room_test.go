package scan

import "testing"

// roomFor needs few steps to allocate the records that the file size promises. roomFor never allocates many times the
// number of existing records.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		n           int
		size, taken int64
		want        int
	}{
		{0, 0, 0, 64}, {10, 1000, 100, 64}, {100, 0, 10_000, 200}, // size unknown, or too few records for an estimate
		{64, 1_000_000, 640, 512},        // limited to 8 times the records
		{512, 1_000_000, 10_000, 52_224}, // estimate by the file size
		{512, 90_000_000, 1000, 131_072}, // limited to 256 times the records
		{1000, 200_000, 100_000, 2040},   // about twice the records
		{1000, 100_500, 100_000, 1125},   // nearly at the end of the file
		{1000, 100_000, 100_001, 2000},   // the file is longer than its size
	} {
		l := Lines{size: c.size, at: c.taken}
		if got := l.roomFor(c.n); got != c.want {
			t.Errorf("room for %d records after %d of %d bytes is %d, want %d", c.n, c.taken, c.size, got, c.want)
		}
	}
}
