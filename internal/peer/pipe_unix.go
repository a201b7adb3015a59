//go:build unix

package peer

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// pipe is an end of a pipe to a process. Read and Write wait with poll in the current thread until the pipe is ready
// or waiting is stopped. Reads from an os.File with a deadline take twice as long. Only one goroutine at a time may
// use a pipe.
type pipe struct {
	file  *os.File
	waits [2]unix.PollFd // descriptors of the pipe and of the pipe that stops waiting
}

// newPipes returns a writer for in, a reader for out, and a function that stops all current and later waits. Closing
// the reader releases all resources.
func newPipes(in, out *os.File) (w io.WriteCloser, r io.ReadCloser, end func(), err error) {
	wake, ended, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	wakes := unix.PollFd{Fd: int32(wake.Fd()), Events: unix.POLLIN}
	to := &pipe{in, [2]unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLOUT}, wakes}}
	from := &pipe{out, [2]unix.PollFd{{Fd: int32(out.Fd()), Events: unix.POLLIN}, wakes}}
	if err := unix.SetNonblock(int(to.waits[0].Fd), true); err != nil { // a write writes only as many bytes as the pipe can buffer
		wake.Close()
		ended.Close()
		return nil, nil, nil, err
	}
	end = sync.OnceFunc(func() { ended.Close() })
	return to, &source{from, wake, end}, end, nil
}

// source is the read end of a pipe. Another pipe, which source owns, stops a waiting read.
type source struct {
	*pipe
	wake *os.File
	end  func()
}

// Close closes the pipe and stops all waits.
func (s *source) Close() error {
	s.end()
	return errors.Join(s.pipe.Close(), s.wake.Close())
}

// wait waits until the pipe is ready. wait returns an error if waiting is stopped.
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

// Read reads the available bytes, at least one byte.
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

// Close closes this end of the pipe.
func (p *pipe) Close() error {
	if p.file == nil {
		return os.ErrClosed
	}
	file := p.file
	p.file = nil
	return file.Close()
}
