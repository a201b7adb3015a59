package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
)

// lines collects the written lines. lines is safe for concurrent use.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.b.String(), "\n"), "\n")
}

// The first line of a kind is written at once. The following lines become one line with their number.
func TestThrottle(t *testing.T) {
	var out lines
	h := throttled{slog.NewTextHandler(&out, nil), &kinds{known: make(map[string]*kind), wait: time.Second}}
	log := slog.New(h)
	for i := range 1000 {
		log.Warn("connection from 10.0.0.1:"+strings.Repeat("7", 1+i%5)+" closed", "n", i)
		log.With("a", 1).Warn("something else", "n", i)
	}
	log.Error("something else")
	if got := out.all(); len(got) != 3 {
		t.Fatalf("%d lines at once, want 3:\n%s", len(got), strings.Join(got, "\n"))
	}
	poll.Until(t, "two counts of the lines that were left out", func() bool { return len(out.all()) >= 5 })
	if got := strings.Join(out.all()[3:], "\n"); strings.Count(got, "n=999 left_out=998 in=1s") != 2 {
		t.Errorf("then %s", got)
	}
}

// The number of kinds and the length of a line are limited.
func TestThrottleBounds(t *testing.T) {
	var out lines
	log := slog.New(Throttle(slog.NewTextHandler(&out, nil)))
	for i := range 5000 {
		log.Warn("kind " + strings.Repeat("x", i%50) + string(rune('a'+i/50%26)) + string(rune('k'+i/1300)))
	}
	if got := out.all(); len(got) > mostKinds+1 {
		t.Errorf("%d lines, want at most %d", len(got), mostKinds+1)
	}
	out = lines{}
	log = slog.New(Throttle(slog.NewTextHandler(&out, nil)))
	long := strings.Repeat("ä", 100_000)
	log.Warn("long", "text", long, "reason", errors.New(long))
	if got := out.all()[0]; len(got) > 3*longestText || strings.Count(got, "bytes more)") != 2 {
		t.Errorf("a line of %d bytes: %.200s", len(got), got)
	}
}

// ThrottleWarnings throttles texts too.
func TestThrottleWarnings(t *testing.T) {
	var got []string
	warn := ThrottleWarnings(func(text string) { got = append(got, text) })
	for range 100 {
		warn("tcp://127.0.0.1:4000: refused")
	}
	if len(got) != 1 || got[0] != "tcp://127.0.0.1:4000: refused" {
		t.Errorf("%q", got)
	}
}
