//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// pseudo is a pseudo-terminal that stores all output.
type pseudo struct {
	*os.File
	master *os.File
	mutex  sync.Mutex
	text   bytes.Buffer
	done   chan struct{}
	once   sync.Once
	drawn  chan struct{} // closed at the first escape sequence
}

func openPseudo(t *testing.T, columns, lines uint16) *pseudo {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: lines, Col: columns})
	}
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	p := &pseudo{File: slave, master: master, done: make(chan struct{}), drawn: make(chan struct{})}
	go p.keep()
	return p
}

func (p *pseudo) keep() {
	defer close(p.done)
	buffer := make([]byte, 1<<16)
	for {
		n, err := p.master.Read(buffer)
		if bytes.ContainsRune(buffer[:n], '\x1b') {
			p.once.Do(func() { close(p.drawn) })
		}
		p.mutex.Lock()
		p.text.Write(buffer[:n])
		p.mutex.Unlock()
		if err != nil {
			return
		}
	}
}

// end closes the terminal and returns all output.
func (p *pseudo) end() string {
	p.Close()
	<-p.done
	p.master.Close()
	return p.text.String()
}

// watched returns the command line of a replay that takes a second or two.
func watched() []string {
	return strings.Fields("trace --input-tokens 200 --output-tokens 20 --request-count 200000 --arrival-interval-ms 10 --workers 3 --router kv --max-num-seqs 4")
}

// One function decides on escape sequences: a dumb or missing terminal gets only text, and NO_COLOR with any value
// disables colors.
func TestEscapesOnTerminals(t *testing.T) {
	colored, escaped := regexp.MustCompile(`\x1b\[[0-9;]*m`), regexp.MustCompile(`\x1b`)
	for _, c := range []struct {
		term, no         string
		more             string
		draws, hasColors bool
	}{
		{"xterm-256color", "", "--watch=50ms", true, true},
		{"xterm-256color", "1", "--watch=50ms", true, false},
		{"xterm-256color", "0", "--watch=50ms", true, false},
		{"dumb", "", "--watch=50ms", false, false},
		{"xterm-256color", "", "", true, false},
		{"xterm-256color", "yes", "", true, false},
		{"dumb", "", "", false, false},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.no)
		p := openPseudo(t, 80, 24)
		args := watched()
		if c.more != "" {
			args = append(args, c.more)
		}
		code := run(args, nil, io.Discard, p.File)
		text := p.end()
		if code != 0 || escaped.MatchString(text) != c.draws || colored.MatchString(text) != c.hasColors {
			t.Errorf("%+v: exit %d, %.600q; want escape sequences: %v, colors: %v", c, code, text, c.draws, c.hasColors)
		}
		if c.draws && !strings.HasSuffix(text, "\x1b[J") && !strings.HasSuffix(text, "\x1b[2K\r") {
			t.Errorf("%+v: the last that is written is %q, want that it is cleared", c, text[max(0, len(text)-100):])
		}
	}
}

// Ctrl-C ends a replay with --watch within about a second, removes the frame and restores the terminal.
func TestWatchInterrupted(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	p := openPseudo(t, 80, 24)
	before, err := unix.IoctlGetTermios(int(p.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan time.Time, 1)
	go func() {
		<-p.drawn
		sent <- time.Now()
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Error(err)
		}
	}()
	args := append(watched(), "--watch=50ms", "--request-count", "2000000")
	code := run(args, nil, io.Discard, p.File)
	var took time.Duration
	select {
	case at := <-sent:
		took = time.Since(at)
	default:
		t.Error("the replay ended before anything was drawn")
	}
	after, err := unix.IoctlGetTermios(int(p.Fd()), unix.TCGETS)
	if err != nil || *before != *after {
		t.Errorf("%v; the terminal is set to %+v, want %+v", err, after, before)
	}
	text := p.end()
	if code != cli.ExitInterrupted || took > 20*time.Second {
		t.Errorf("exit %d after %v; want exit %d", code, took, cli.ExitInterrupted)
	}
	if !strings.HasSuffix(text, "\x1b[Jreplay: interrupted\r\n") {
		t.Errorf("ends with %q", text[max(0, len(text)-200):])
	}
	if other := regexp.MustCompile(`\x1b\[[^mKJA]*[^0-9;mKJA]`).FindString(text); other != "" {
		t.Errorf("%q is written, which has to be taken back", other)
	}
}
