package requests

import (
	"io"
	"runtime"
	"slices"
	"sync"
)

// rowsPerPart is the minimum number of rows for which a goroutine pays.
const rowsPerPart = 1 << 10

// inParts calls work for all n rows, in one part per core.
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

// rowsPerText is the number of rows that are formatted and written together.
const rowsPerText = 1 << 8

// writeText writes a text for each row, in order. All cores format texts.
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
