package cli

import (
	"context"
	"io"
	"sync"
)

// stdin is a standard input whose readers do not wait for more once ctx has
// ended, so that a command that waits for input can still end in good order.
type stdin struct {
	*io.PipeReader
	begin func()
}

// NewStdin returns a reader of in whose reads end with ctx. It reads nothing
// before somebody wants something.
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

// Read returns the error of the context once that has ended.
func (i *stdin) Read(p []byte) (int, error) {
	i.begin()
	return i.PipeReader.Read(p)
}
