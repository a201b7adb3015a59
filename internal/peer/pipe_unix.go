//go:build unix

package peer

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// pipe is an end of a pipe to a process. A call waits for the process or for the end of waiting, whichever is first, by
// poll in its own thread: reading by a file with a deadline takes twice as long. It is used by one goroutine at a time.
type pipe struct {
	file  *os.File
	waits [2]unix.PollFd // for the pipe, and for the end of waiting
}

// newPipes returns the writer of in, the reader of out, and functions that end their waits now and later. Closing out
// releases everything.
func newPipes(in, out *os.File) (w io.WriteCloser, r io.ReadCloser, end func(), err error) {
	wake, ended, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	wakes := unix.PollFd{Fd: int32(wake.Fd()), Events: unix.POLLIN}
	to := &pipe{in, [2]unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLOUT}, wakes}}
	from := &pipe{out, [2]unix.PollFd{{Fd: int32(out.Fd()), Events: unix.POLLIN}, wakes}}
	if err := unix.SetNonblock(int(to.waits[0].Fd), true); err != nil { // a write takes as much as there is room for
		wake.Close()
		ended.Close()
		return nil, nil, nil, err
	}
	end = sync.OnceFunc(func() { ended.Close() })
	return to, &source{from, wake, end}, end, nil
}

// source is the pipe that is read, which owns the end of waiting.
type source struct {
	*pipe
	wake *os.File
	end  func()
}

// Close closes the pipe.
func (s *source) Close() error {
	s.end()
	return errors.Join(s.pipe.Close(), s.wake.Close())
}

// wait returns when the pipe is ready, or with an error when there is no more waiting.
func (p *pipe) wait() error {
	for {
		switch _, err := unix.Poll(p.waits[:], -1); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case p.waits[1].Revents != 0:
			return os.ErrDeadlineExceeded
		case p.waits[0].Revents != 0:
			return nil
		}
	}
}

// Read reads as much as is there, at least a byte.
func (p *pipe) Read(b []byte) (int, error) {
	for p.file != nil {
		if err := p.wait(); err != nil {
			return 0, err
		}
		switch n, err := unix.Read(int(p.waits[0].Fd), b); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
	return 0, os.ErrClosed
}

// Write writes all of b.
func (p *pipe) Write(b []byte) (int, error) {
	done := 0
	for p.file != nil {
		n, err := unix.Write(int(p.waits[0].Fd), b[done:])
		done += max(n, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			if err := p.wait(); err != nil {
				return done, err
			}
		case errors.Is(err, unix.EINTR):
		case err != nil || done == len(b):
			return done, err
		}
	}
	return done, os.ErrClosed
}

// Close closes the end.
func (p *pipe) Close() error {
	if p.file == nil {
		return os.ErrClosed
	}
	file := p.file
	p.file = nil
	return file.Close()
}
