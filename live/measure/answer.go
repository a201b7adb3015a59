package measure

import (
	"bytes"
	"time"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

const (
	maxLine = 256 << 10 // bytes of an event that are kept; a longer one counts as one piece and is not read
	maxTail = 64 << 10  // bytes of an answer in one piece that are kept: its end has the usage
	maxGaps = 1 << 16   // gaps between tokens that are kept of one answer
)

// Answer has the known facts of the answer of an OpenAI-style server, from its bytes as they come: completions or
// chat, as a stream of events or in one piece. It keeps no text except that of the current event.
type Answer struct {
	Pieces      int // of the stream that bring a token or more
	First, Last time.Time
	Gaps        []float64 // s, between pieces
	// Input, Output and Cached are the tokens that the server counted; -1: unknown.
	Input, Output, Cached int
	Done                  bool   // it came to its end
	Err                   string // that the server sent in the stream

	stream bool
	silent time.Time // when it ended without text, as an answer of one token may that has none
	long   bool      // the event at hand is too long
	line   []byte
}

// NewAnswer returns an answer of which nothing has come.
func NewAnswer(stream bool) *Answer {
	return &Answer{Input: -1, Output: -1, Cached: -1, stream: stream}
}

// AddBytes adds what came at an instant.
func (a *Answer) AddBytes(at time.Time, p []byte) {
	if !a.stream {
		if a.First.IsZero() {
			a.First = at
		}
		a.Last = at
		if a.line = append(a.line, p...); len(a.line) > 2*maxTail {
			a.line = append(a.line[:0], a.line[len(a.line)-maxTail:]...)
		}
		return
	}
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		switch {
		case !ended:
			a.holdPart(part)
		case a.long:
			a.countPiece(at)
			a.line, a.long = a.line[:0], false
		case len(a.line) > 0:
			a.readLine(at, append(a.line, part...))
			a.line = a.line[:0]
		default:
			a.readLine(at, part)
		}
		p = rest
	}
}

// holdPart keeps the beginning of an event until its end comes.
func (a *Answer) holdPart(part []byte) {
	if a.long = a.long || len(a.line)+len(part) > maxLine; a.long {
		a.line = a.line[:0]
		return
	}
	a.line = append(a.line, part...)
}

// End notes that all has come.
func (a *Answer) End() {
	if a.stream {
		return
	}
	a.Done = true
	a.readUsage(a.line)
	a.line = nil
}

// readLine reads a line of a stream of events.
func (a *Answer) readLine(at time.Time, line []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return
	}
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, []byte("[DONE]")) {
		a.Done = true
		return
	}
	switch {
	case bringsToken(data):
		a.countPiece(at)
	case a.Pieces == 0 && bytes.HasPrefix(valueOf(data, `"finish_reason":`), []byte{'"'}):
		a.silent = at
	}
	if a.readUsage(data); a.Pieces == 0 && a.Output > 0 && !a.silent.IsZero() {
		a.countPiece(a.silent)
	}
	if bytes.HasPrefix(data, []byte(`{"error"`)) || bytes.HasPrefix(data, []byte(`{"object":"error"`)) {
		a.Err = excerpt.Message(string(data))
	}
}

func (a *Answer) countPiece(at time.Time) {
	if a.Pieces++; a.Pieces == 1 {
		a.First = at
	} else if len(a.Gaps) < maxGaps {
		a.Gaps = append(a.Gaps, at.Sub(a.Last).Seconds())
	}
	a.Last = at
}

// bringsToken reports whether an event brings a token: text, or an empty piece before the end, which stands for half a
// character. The first event of a chat, with no more than the role, brings none.
func bringsToken(data []byte) bool {
	for _, key := range []string{`"text":`, `"content":`, `"reasoning_content":`, `"reasoning":`, `"arguments":`} {
		if v := valueOf(data, key); len(v) > 1 && v[0] == '"' && v[1] != '"' {
			return true
		}
	}
	v := valueOf(data, `"text":`)
	if len(v) == 0 {
		if valueOf(data, `"role":`) != nil {
			return false
		}
		v = valueOf(data, `"content":`)
	}
	return bytes.HasPrefix(v, []byte(`""`)) && !bytes.HasPrefix(valueOf(data, `"finish_reason":`), []byte{'"'})
}

// valueOf returns the value of a key. A key cannot be in a string, where its quotes would be escaped.
func valueOf(data []byte, key string) []byte {
	_, v, _ := bytes.Cut(data, []byte(key))
	return bytes.TrimLeft(v, " ")
}

// usage is a server's report of the tokens of a request.
type usage struct {
	Input   *int `json:"prompt_tokens"`
	Output  *int `json:"completion_tokens"`
	Details *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// readUsage takes over the last usage in text, if there is one.
func (a *Answer) readUsage(text []byte) {
	const key = `"usage":`
	i := bytes.LastIndex(text, []byte(key))
	if i < 0 {
		return
	}
	var u usage
	if json.NewDecoder(bytes.NewReader(text[i+len(key):])).Decode(&u) != nil {
		return
	}
	if u.Input != nil {
		a.Input = *u.Input
	}
	if u.Output != nil {
		a.Output = *u.Output
	}
	if u.Details != nil && u.Details.Cached != nil {
		a.Cached = *u.Details.Cached
	}
}

// Tokens returns the output tokens: the server's count, or the pieces of the stream; counted reports the
// latter.
func (a *Answer) Tokens() (n int, counted bool) {
	if a.Output >= 0 {
		return a.Output, false
	}
	return a.Pieces, a.Pieces > 0
}
