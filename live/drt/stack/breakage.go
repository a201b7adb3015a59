package stack

import (
	"fmt"
	"runtime"
	"strings"
	"sync"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// breakage records an error that etcd cannot survive, such as a full disk.
type breakage struct {
	dir      string
	once     sync.Once
	happened chan struct{} // closed when err is set
	err      error
}

func newBreakage(dir string) *breakage { return &breakage{dir: dir, happened: make(chan struct{})} }

// guardStart returns the result of start, or the error of its panic.
func (b *breakage) guardStart(start func() (*embed.Etcd, error)) (*embed.Etcd, error) {
	type result struct {
		server *embed.Etcd
		err    error
	}
	returned := make(chan result, 1)
	go func() {
		server, err := start()
		returned <- result{server, err}
	}()
	select {
	case r := <-returned:
		return r.server, r.err
	case <-b.happened:
		return nil, b.err
	}
}

// logger returns a logger that records fatal errors only. Other errors are returned by the calls that cause them, and
// errors that etcd logs at start and stop are harmless.
func (b *breakage) logger() *zap.Logger {
	return zap.New(&breakageCore{breakage: b}, zap.WithFatalHook(b), zap.WithPanicHook(b))
}

// OnWrite ends the goroutine that logged a fatal error.
func (b *breakage) OnWrite(e *zapcore.CheckedEntry, _ []zapcore.Field) {
	b.noteError(fmt.Errorf("%s: %s", b.dir, e.Message)) // ignored if the core has recorded a more detailed error
	runtime.Goexit()
}

func (b *breakage) noteError(err error) {
	b.once.Do(func() {
		b.err = err
		close(b.happened)
	})
}

// breakageCore receives the log lines with the reason of a failure.
type breakageCore struct {
	breakage *breakage
	with     []zapcore.Field
}

func (c *breakageCore) Enabled(l zapcore.Level) bool { return l >= zapcore.DPanicLevel }

func (c *breakageCore) With(f []zapcore.Field) zapcore.Core {
	return &breakageCore{c.breakage, append(c.with[:len(c.with):len(c.with)], f...)}
}

func (c *breakageCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write records the message of a log line, with the errors in its fields.
func (c *breakageCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	var why []string
	for _, f := range append(c.with[:len(c.with):len(c.with)], fields...) {
		if err, ok := f.Interface.(error); ok {
			why = append(why, err.Error())
		}
	}
	c.breakage.noteError(fmt.Errorf("%s: %s", c.breakage.dir, strings.Join(append([]string{e.Message}, why...), ": ")))
	return nil
}

func (c *breakageCore) Sync() error { return nil }
