// Package tile makes a trace of any length of a short one, by repeating it:
// each copy comes after the one before, with hash ids and sessions of its own,
// so that every stretch of the long trace is as much work as the short one.
package tile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Trace is a trace of requests in memory, in the mooncake format.
type Trace struct {
	records []record
	period  float64 // ms from one copy to the next
	ids     uint64  // one more than the largest hash id
}

// record is one line. Fields that are absent stay absent.
type record struct {
	Session   *string      `json:"session_id"`
	Timestamp *float64     `json:"timestamp"` // ms
	Delay     *json.Number `json:"delay"`     // ms
	Input     int          `json:"input_length"`
	Output    int          `json:"output_length"`
	IDs       []uint64     `json:"hash_ids"`
}

// maxLine is the longest line, in bytes.
const maxLine = 64 << 20

// maxID bounds hash ids, those of copies too: of larger ones the reference reads
// the lower 32 bits only.
const maxID = 1 << 32

// Read reads a trace; name stands for it in errors. It refuses fields that
// Write would lose.
func Read(in io.Reader, name string) (*Trace, error) {
	t := &Trace{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	last, arrivals := 0.0, 0
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		var r record
		if err := decoder.Decode(&r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		for _, id := range r.IDs {
			t.ids = max(t.ids, id+1)
		}
		if r.Timestamp != nil {
			last = max(last, *r.Timestamp)
			arrivals++
		}
		t.records = append(t.records, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(t.records) == 0 {
		return nil, fmt.Errorf("%s: no requests, want at least 1", name)
	}
	// The next copy begins one mean gap after the last arrival.
	t.period = math.Ceil(last + last/float64(max(arrivals-1, 1)))
	return t, nil
}

// Len returns the number of requests of the trace that is repeated.
func (t *Trace) Len() int { return len(t.records) }

// Write writes the first requests of the endless trace. The same call always
// writes the same bytes.
func (t *Trace) Write(w io.Writer, requests int) error {
	copies := uint64(requests+len(t.records)-1) / uint64(len(t.records))
	if t.ids > 0 && copies > maxID/t.ids {
		return fmt.Errorf("%d copies with %d hash ids each, want at most %d ids", copies, t.ids, uint64(maxID))
	}
	out := bufio.NewWriterSize(w, 1<<20)
	var line []byte
	for i := range requests {
		n := i / len(t.records)
		line = t.appendLine(line[:0], &t.records[i%len(t.records)], n)
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// appendLine appends the line of r in copy n.
func (t *Trace) appendLine(dst []byte, r *record, n int) []byte {
	dst = append(dst, '{')
	if r.Session != nil {
		dst = append(dst, `"session_id": `...)
		dst = appendString(dst, copyName(*r.Session, n))
		dst = append(dst, ", "...)
	}
	if r.Timestamp != nil {
		dst = append(dst, `"timestamp": `...)
		dst = appendMS(dst, *r.Timestamp+float64(float64(n)*t.period))
		dst = append(dst, ", "...)
	}
	if r.Delay != nil {
		dst = fmt.Appendf(dst, `"delay": %s, `, *r.Delay)
	}
	dst = fmt.Appendf(dst, `"input_length": %d, "output_length": %d, "hash_ids": [`, r.Input, r.Output)
	for i, id := range r.IDs {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = strconv.AppendUint(dst, id+uint64(n)*t.ids, 10)
	}
	return append(dst, "]}\n"...)
}

func copyName(session string, n int) string {
	if n == 0 {
		return session
	}
	return session + "+" + strconv.Itoa(n)
}

func appendString(dst []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be written
	}
	return append(dst, text...)
}

// appendMS writes at most 15 significant digits: all readers agree on those.
func appendMS(dst []byte, ms float64) []byte { return strconv.AppendFloat(dst, ms, 'g', 15, 64) }
