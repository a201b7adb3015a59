package cli

import (
	"context"
	"io"
	"sync"
)

// stdin is a standard input of which blocked reads return when the context ends, so that a command that waits for
// input can end cleanly.
type stdin struct {
	*io.PipeReader
	begin func()
}

// NewStdin returns a reader of in. When ctx ends, its reads return the error of ctx. NewStdin does not read from in
// before the first read.
func NewStdin(ctx context.Context, in io.Reader) io.Reader {
	from, to := io.Pipe()
	return &stdin{from, sync.OnceFunc(func() {
		context.AfterFunc(ctx, func() { to.CloseWithError(ctx.Err()) })
		go func() {
			_, err := io.CopyBuffer(to, struct{ io.Reader }{in}, make([]byte, 1<<16))
			to.CloseWithError(err)
		}()
	})}
}

// Read returns the error of the context after the context has ended.
func (i *stdin) Read(p []byte) (int, error) {
	i.begin()
	return i.PipeReader.Read(p)
}
