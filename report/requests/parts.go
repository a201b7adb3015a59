package requests

import (
	"io"
	"runtime"
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
const rowsPerText = 1 << 6

// writeText writes a text for each row, in order. Texts are formatted on all
// cores, beside the writing.
func writeText(w io.Writer, rows []Row, format func(dst []byte, r *Row) []byte) error {
	chunks := (len(rows) + rowsPerText - 1) / rowsPerText
	text := func(dst []byte, chunk int) []byte {
		from := chunk * rowsPerText
		for i := range rows[from:min(from+rowsPerText, len(rows))] {
			dst = format(dst, &rows[from+i])
		}
		return dst
	}
	cores := min(runtime.GOMAXPROCS(0), chunks)
	if cores < 2 {
		var buf []byte
		for chunk := range chunks {
			buf = text(buf[:0], chunk)
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
		return nil
	}
	return writeInTurn(w, chunks, cores, text)
}

// writeInTurn writes the texts of chunks in order, which so many goroutines make
// in turn.
func writeInTurn(w io.Writer, chunks, makers int, text func(dst []byte, chunk int) []byte) error {
	const ahead = 2 // texts of a maker, made or in the making
	ended := make(chan struct{})
	made, spare := make([]chan []byte, makers), make([]chan []byte, makers)
	var wg sync.WaitGroup
	for m := range makers {
		made[m], spare[m] = make(chan []byte, ahead), make(chan []byte, ahead)
		for range ahead {
			spare[m] <- nil
		}
		wg.Go(func() {
			for chunk := m; chunk < chunks; chunk += makers {
				select {
				case buf := <-spare[m]:
					made[m] <- text(buf[:0], chunk) // there is room for all there are
				case <-ended:
					return
				}
			}
		})
	}
	defer wg.Wait()
	defer close(ended)
	for chunk := range chunks {
		buf := <-made[chunk%makers]
		if _, err := w.Write(buf); err != nil {
			return err
		}
		spare[chunk%makers] <- buf
	}
	return nil
}
