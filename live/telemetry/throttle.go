package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	throttleTime = 10 * time.Second // minimum time between two lines of a kind
	longestText  = 600              // maximum bytes of a message, and of each of its attributes
	longestKind  = 60               // first bytes of a message that identify its kind
	mostKinds    = 200              // maximum number of kinds; further lines are one kind
)

// Throttle returns h limited to one line of a kind in ten seconds. After ten seconds, the last omitted line is
// written with the number of omitted lines. Texts of more than 600 bytes are cut. A kind is a level and the beginning
// of a message without numbers.
func Throttle(h slog.Handler) slog.Handler {
	return throttled{h, &kinds{known: make(map[string]*kind), wait: throttleTime}}
}

type throttled struct {
	slog.Handler
	kinds *kinds
}

// kinds contains the kinds of recent lines.
type kinds struct {
	wait  time.Duration
	mu    sync.Mutex
	known map[string]*kind
}

// kind counts the lines of a kind since the last written line.
type kind struct {
	left int         // lines that were not written
	last slog.Record // the last line that was not written
}

func (h throttled) Handle(ctx context.Context, r slog.Record) error {
	name := kindOf(&r)
	h.kinds.mu.Lock()
	if _, known := h.kinds.known[name]; !known && len(h.kinds.known) >= mostKinds {
		name = "others"
	}
	if k, known := h.kinds.known[name]; known {
		k.left++
		k.last = r.Clone()
		h.kinds.mu.Unlock()
		return nil
	}
	h.kinds.known[name] = &kind{}
	h.kinds.mu.Unlock()
	time.AfterFunc(h.kinds.wait, func() { h.endWait(name) })
	return h.Handler.Handle(ctx, cutRecord(&r))
}

// endWait writes the last omitted line of a kind with the number of omitted lines, if there are any.
func (h throttled) endWait(name string) {
	h.kinds.mu.Lock()
	k := h.kinds.known[name]
	if k.left == 0 {
		delete(h.kinds.known, name)
		h.kinds.mu.Unlock()
		return
	}
	left, last := k.left, k.last
	h.kinds.known[name] = &kind{}
	h.kinds.mu.Unlock()
	last.AddAttrs(slog.Int("left_out", left-1), slog.String("in", h.kinds.wait.String()))
	_ = h.Handler.Handle(context.Background(), cutRecord(&last))
	time.AfterFunc(h.kinds.wait, func() { h.endWait(name) })
}

func (h throttled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return throttled{h.Handler.WithAttrs(attrs), h.kinds}
}

func (h throttled) WithGroup(name string) slog.Handler {
	return throttled{h.Handler.WithGroup(name), h.kinds}
}

// kindOf returns the kind of a line.
func kindOf(r *slog.Record) string {
	var b strings.Builder
	digits := false
	for _, c := range r.Message {
		if b.Len() >= longestKind {
			break
		}
		if isDigit := c >= '0' && c <= '9' || c >= 'a' && c <= 'f' && digits; isDigit {
			digits = true
			continue
		}
		if digits {
			b.WriteByte('#')
			digits = false
		}
		b.WriteRune(c)
	}
	return r.Level.String() + " " + b.String()
}

// cutRecord returns a record with its texts cut to longestText bytes.
func cutRecord(r *slog.Record) slog.Record {
	cut := slog.NewRecord(r.Time, r.Level, cutText(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if v := a.Value.Resolve(); v.Kind() == slog.KindString || v.Kind() == slog.KindAny {
			a.Value = slog.StringValue(cutText(v.String()))
		}
		cut.AddAttrs(a)
		return true
	})
	return cut
}

// cutText returns a text cut to about longestText bytes. cutText appends the number of bytes that were cut.
func cutText(text string) string {
	if len(text) <= longestText {
		return text
	}
	n := longestText
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:n], len(text)-n)
}

// ThrottleWarnings returns a function that passes texts to warn, one at a time, with the limits of Throttle.
func ThrottleWarnings(warn func(text string)) func(text string) {
	log := slog.New(Throttle(&textHandler{warn: warn}))
	return func(text string) { log.Warn(text) }
}

// textHandler passes log lines to warn as texts.
type textHandler struct {
	mu   sync.Mutex
	warn func(text string)
}

func (h *textHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warn(text)
	return nil
}

func (h *textHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *textHandler) WithGroup(string) slog.Handler      { return h }
