package requests

import (
	"io"
	"runtime"
	"slices"
	"sync"
)

// rowsPerPart is how many rows are worth a goroutine.
const rowsPerPart = 1 << 10

// inParts has work done on n rows, in a part for each core.
func inParts(n int, work func(from, to int)) {
	parts := min(runtime.GOMAXPROCS(0), n/rowsPerPart)
	if parts < 2 {
		work(0, n)
		return
	}
	var wg sync.WaitGroup
	for p := range parts {
		wg.Go(func() { work(n*p/parts, n*(p+1)/parts) })
	}
	wg.Wait()
}

// rowsPerText is how many rows are formatted, and written, at once.
const rowsPerText = 1 << 8

// writeText writes a text for each row, in order. Texts are formatted on all
// cores.
func writeText(w io.Writer, rows []Row, format func(dst []byte, r *Row) []byte) error {
	texts := make([][]byte, runtime.GOMAXPROCS(0))
	for atOnce := range slices.Chunk(rows, rowsPerText*len(texts)) {
		var wg sync.WaitGroup
		made := 0
		for part := range slices.Chunk(atOnce, rowsPerText) {
			text := &texts[made]
			made++
			wg.Go(func() {
				*text = (*text)[:0]
				for i := range part {
					*text = format(*text, &part[i])
				}
			})
		}
		wg.Wait()
		for _, text := range texts[:made] {
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
	}
	return nil
}
