package cli

import (
	"context"
	"io"
)

// stdin is a standard input whose readers do not wait for more once ctx has
// ended, so that a command that waits for input can still end in good order.
type stdin struct {
	ctx   context.Context
	in    io.Reader
	begun bool
	read  chan chunk
	spare chan []byte
	last  chunk // what is left of it
	buf   []byte
}

// chunk is what one read gave.
type chunk struct {
	data []byte
	err  error
}

// NewStdin returns a reader of in whose reads end with ctx.
func NewStdin(ctx context.Context, in io.Reader) *stdin {
	return &stdin{ctx: ctx, in: in, read: make(chan chunk), spare: make(chan []byte, 2)}
}

// Read is the error of the context once that has ended.
func (i *stdin) Read(p []byte) (int, error) {
	if !i.begun {
		const size = 1 << 16
		i.begun = true
		i.spare <- make([]byte, size)
		i.spare <- make([]byte, size)
		go i.pumpChunks()
	}
	for len(i.last.data) == 0 {
		if i.last.err != nil {
			return 0, i.last.err
		}
		if err := i.nextChunk(); err != nil {
			return 0, err
		}
	}
	n := copy(p, i.last.data)
	i.last.data = i.last.data[n:]
	return n, nil
}

// nextChunk waits for another chunk.
func (i *stdin) nextChunk() error {
	if i.buf != nil {
		i.spare <- i.buf
		i.buf = nil
	}
	select {
	case i.last = <-i.read:
		i.buf = i.last.data[:cap(i.last.data)]
		return nil
	case <-i.ctx.Done():
		return i.ctx.Err()
	}
}

// pumpChunks reads until there is no more, or nobody wants it.
func (i *stdin) pumpChunks() {
	for buf := range i.spare {
		n, err := i.in.Read(buf)
		select {
		case i.read <- chunk{buf[:n], err}:
		case <-i.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}
