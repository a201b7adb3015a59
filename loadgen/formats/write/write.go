// Package write writes traces in the formats of Targets.
//
// Read write.go, then create.go (files that exist only when complete).
package write

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen/formats"
)

// Writer writes records as a trace.
type Writer struct {
	w       *bufio.Writer
	to      string
	line    []byte
	started bool
	count   int
	chains  *chains // only for agentic_mooncake and tasks
}

// Targets returns the formats that can be written.
func Targets() []string {
	return []string{"mooncake", formats.Tasks, "agentic_mooncake", "vidur", "azure"}
}

// Lossy reports whether a format has neither ids nor sessions.
func Lossy(to string) bool { return to == "vidur" || to == "azure" }

// HoldsGraph reports whether a format supports graphs of requests.
func HoldsGraph(to string) bool { return to == "agentic_mooncake" || to == formats.Tasks }

// NewWriter returns a Writer for the named format. block is the number of tokens of a hash id.
func NewWriter(w io.Writer, to string, block int) (*Writer, error) {
	if !slices.Contains(Targets(), to) {
		return nil, excerpt.Errorf("format to write is %q, must be %s", to, strings.Join(Targets(), ", "))
	}
	out := &Writer{w: bufio.NewWriterSize(w, 256<<10), to: to}
	if HoldsGraph(to) {
		out.chains = &chains{block: block, order: formats.NewOrder("what is written"), sessions: make(map[string]turnBefore), named: make(map[string]turnBefore)}
	}
	return out, nil
}

// Write writes r. The ids do not change.
func (w *Writer) Write(r *formats.Record) error {
	w.line = w.line[:0]
	var err error
	if len(r.After) > 0 && w.chains == nil && !Lossy(w.to) {
		return fmt.Errorf("line %d waits for other requests than the one before it, use --to tasks or agentic_mooncake, or --dag chain", r.Line)
	}
	switch w.to {
	case "mooncake":
		w.appendMooncake(r)
	case "agentic_mooncake", formats.Tasks:
		err = w.appendAgentic(r)
	case "vidur", "azure":
		err = w.appendTable(r)
	}
	if err != nil {
		return err
	}
	w.started = true
	w.count++
	_, err = w.w.Write(append(w.line, '\n'))
	return err
}

// Count returns the number of written requests.
func (w *Writer) Count() int { return w.count }

// Flush writes buffered data.
func (w *Writer) Flush() error { return w.w.Flush() }

func (w *Writer) appendMooncake(r *formats.Record) {
	b := append(w.line, '{')
	if r.Session != nil {
		b = append(appendString(append(b, `"session_id":`...), r.Session), ',')
	}
	if r.HasAt && (!r.HasDelay || !r.Stamped) {
		b = append(appendNumber(append(b, `"timestamp":`...), r.At), ',')
	}
	if r.HasDelay {
		b = append(appendNumber(append(b, `"delay":`...), r.Delay), ',')
	}
	w.line = append(appendPrompt(appendKind(b, r), r), '}')
}

// appendKind appends priority and class, if set.
func appendKind(b []byte, r *formats.Record) []byte {
	if r.Priority != 0 {
		b = append(strconv.AppendInt(append(b, `"priority":`...), int64(r.Priority), 10), ',')
	}
	if r.Class != nil {
		b = append(appendString(append(b, `"class":`...), r.Class), ',')
	}
	return b
}

// appendPrompt appends lengths and ids. All JSON formats use the same members for lengths and ids.
func appendPrompt(b []byte, r *formats.Record) []byte {
	b = strconv.AppendInt(append(b, `"input_length":`...), int64(r.Input), 10)
	b = strconv.AppendInt(append(b, `,"output_length":`...), int64(r.Output), 10)
	b = append(b, `,"hash_ids":[`...)
	for i, id := range r.IDs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, id, 10)
	}
	return append(b, ']')
}

// appendNumber appends x with the minimum number of digits for an exact value.
func appendNumber(b []byte, x float64) []byte {
	if a := math.Abs(x); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(b, x, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, x, 'f', -1, 64)
}

// appendString appends text as a JSON string.
func appendString(b, text []byte) []byte {
	b = append(b, '"')
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, fmt.Sprintf(`\u%04x`, r)...)
		case r == utf8.RuneError && n == 1:
			b = utf8.AppendRune(b, r)
		default:
			b = append(b, text[:n]...)
		}
		text = text[n:]
	}
	return append(b, '"')
}

// appendTable writes a row in a format with only arrivals and lengths.
func (w *Writer) appendTable(r *formats.Record) error {
	if err := w.needArrival(r); err != nil {
		return err
	}
	switch {
	case w.started:
	case w.to == "vidur":
		w.line = append(w.line, "arrived_at,num_prefill_tokens,num_decode_tokens\n"...)
	default:
		w.line = append(w.line, "TIMESTAMP,ContextTokens,GeneratedTokens\n"...)
	}
	switch {
	case w.to == "vidur":
		w.line = appendNumber(w.line, r.At/1000)
	case math.Abs(r.At) < 1e12:
		at := time.Unix(0, int64(math.Round(r.At*1e4))*100).UTC()
		w.line = at.AppendFormat(w.line, "2006-01-02 15:04:05.0000000")
	default:
		return fmt.Errorf("arrival is %v ms, must be one within 31 years of the start", r.At)
	}
	w.line = fmt.Appendf(w.line, ",%d,%d", r.Input, r.Output)
	return nil
}

// needArrival returns an error if r has no arrival.
func (w *Writer) needArrival(r *formats.Record) error {
	if !r.HasAt {
		return fmt.Errorf("line %d has no arrival, expected one for %s (or --arrival-rate)", r.Line, w.to)
	}
	return nil
}

// chains has the state for formats in which a turn names the turns for which it waits.
type chains struct {
	block    int
	named    map[string]turnBefore // by request name; only for graphs
	lost     int                   // dependencies on requests that were not written
	order    *formats.Order
	sessions map[string]turnBefore
}

// turnBefore is a written turn.
type turnBefore struct {
	request string  // name of the turn in the written file
	at      float64 // start of the session, or recorded arrival, ms
}

// nameNext returns the name of the next written request. In the format tasks, requests keep their names.
func (w *Writer) nameNext(r *formats.Record) string {
	if r.Name != "" && w.to == formats.Tasks {
		return r.Name
	}
	return "r" + strconv.Itoa(w.count)
}

// appendAgentic writes a row of agentic_mooncake or tasks. The first row of agentic_mooncake follows a header.
// Requests are numbered, and so are sessions without a name.
func (w *Writer) appendAgentic(r *formats.Record) error {
	c := w.chains
	if !w.started && w.to != formats.Tasks {
		w.line = fmt.Appendf(w.line, `{"schema":"dynamo.agentic_mooncake","version":2,"block_size":%d,"hash_id_scope":"global","source":{"format":"replay"}}`+"\n", c.block)
	}
	if r.Name != "" {
		return w.appendNode(r)
	}
	place, err := c.order.Place(r)
	if err != nil {
		return err
	}
	before, session := turnBefore{at: r.At}, r.Session
	var after []formats.Edge
	if place.First {
		if err := w.needArrival(r); err != nil {
			return err
		}
		if session == nil {
			session = fmt.Appendf(nil, "s%d", place.Session)
		}
	} else {
		before = c.sessions[string(session)]
		after = []formats.Edge{{Name: before.request, Relation: "sequence", Delay: place.Delay}}
	}
	w.appendTurn(r, session, session, before.at, after)
	if r.Session != nil {
		c.sessions[string(session)] = turnBefore{w.nameNext(r), before.at}
	}
	return nil
}

// appendTurn writes the row of r. The names in after are those in the written file.
func (w *Writer) appendTurn(r *formats.Record, play, session []byte, at float64, after []formats.Edge) {
	if w.to == formats.Tasks {
		w.appendTask(r, play, at, after)
		return
	}
	b := fmt.Appendf(w.line, `{"request_id":"r%d","play_id":`, w.count)
	b = append(appendString(b, play), `,"session_id":`...)
	b = append(appendString(b, session), `,"model":"any",`...)
	b = appendNumber(append(appendPrompt(b, r), `,"not_before_ms":`...), at)
	separator := `,"dependencies":[`
	for _, e := range after {
		b = append(b, separator...)
		separator = ","
		trigger := "completion"
		if e.Dispatch {
			trigger = "dispatch"
		}
		b = fmt.Appendf(b, `{"request_id":"%s","trigger":"%s","delay_ms":`, e.Name, trigger)
		b = fmt.Appendf(appendNumber(b, e.Delay), `,"relation":"%s"}`, e.Relation)
	}
	if len(after) > 0 {
		b = append(b, ']')
	}
	w.line = append(b, '}')
}

// appendTask writes the row of r in the format tasks. The names in after are those in the written file.
func (w *Writer) appendTask(r *formats.Record, task []byte, at float64, after []formats.Edge) {
	b := append(appendString(append(w.line, `{"id":`...), []byte(w.nameNext(r))), ',')
	if len(task) > 0 {
		b = append(appendString(append(b, `"session_id":`...), task), ',')
	}
	if len(after) == 0 {
		b = append(appendNumber(append(b, `"timestamp":`...), at), ',')
	}
	b = append(appendPrompt(appendKind(b, r), r), `,"after":[`...)
	for i, e := range after {
		if i > 0 {
			b = append(b, ',')
		}
		if e.Delay == 0 && !e.Dispatch {
			b = appendString(b, []byte(e.Name))
			continue
		}
		b = appendString(append(b, `{"id":`...), []byte(e.Name))
		b = appendNumber(append(b, `,"delay_ms":`...), e.Delay)
		if e.Dispatch {
			b = append(b, `,"start":true`...)
		}
		b = append(b, '}')
	}
	w.line = append(b, `]}`...)
}

// appendNode writes a request of a graph. All requests for which a request waits were written before.
func (w *Writer) appendNode(r *formats.Record) error {
	c := w.chains
	var after []formats.Edge
	at := r.At
	for _, e := range r.After {
		before, ok := c.named[e.Name]
		if !ok {
			c.lost++
			continue
		}
		if !r.HasAt {
			at = max(at, before.at)
		}
		e.Name = before.request
		after = append(after, e)
	}
	if len(after) == 0 {
		if err := w.needArrival(r); err != nil {
			return err
		}
	}
	w.appendTurn(r, r.Group, []byte(r.Agent), at, after)
	c.named[r.Name] = turnBefore{w.nameNext(r), at}
	return nil
}

// Lost returns the number of dependencies that were not written because their requests were dropped.
func (w *Writer) Lost() int {
	if w.chains == nil {
		return 0
	}
	return w.chains.lost
}
