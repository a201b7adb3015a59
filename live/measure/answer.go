package measure

import (
	"bytes"
	"time"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

const (
	maxLine = 256 << 10 // kept bytes of an event; a longer event counts as one piece and is not parsed
	maxTail = 64 << 10  // kept bytes of an answer that is not streamed: its end has the usage
	maxGaps = 1 << 16   // kept gaps between tokens of one answer
)

// Answer measures the answer of an OpenAI-style server from its bytes, while they arrive: completions or chat,
// streamed or not. Answer keeps no text except the current event.
type Answer struct {
	Pieces      int // pieces of the stream with at least one token
	First, Last time.Time
	Gaps        []float64 // seconds between pieces
	// Input, Output and Cached are the token counts of the server; -1: unknown.
	Input, Output, Cached int
	Done                  bool   // the answer is complete
	Err                   string // error that the server sent in the stream

	stream bool
	silent time.Time // time of an end without text, for an answer of one token without text
	long   bool      // the current event is too long
	line   []byte
}

// NewAnswer returns an empty answer.
func NewAnswer(stream bool) *Answer {
	return &Answer{Input: -1, Output: -1, Cached: -1, stream: stream}
}

// AddBytes adds bytes that arrived at a time.
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

// holdPart keeps an incomplete event.
func (a *Answer) holdPart(part []byte) {
	if a.long = a.long || len(a.line)+len(part) > maxLine; a.long {
		a.line = a.line[:0]
		return
	}
	a.line = append(a.line, part...)
}

// End marks the end of an answer that is not streamed.
func (a *Answer) End() {
	if a.stream {
		return
	}
	a.Done = true
	a.readUsage(a.line)
	a.line = nil
}

// readLine parses a line of a stream of events.
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
	case hasToken(data):
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

// hasToken reports whether an event has a token: text, or an empty piece before the end, which is an incomplete
// character. The first event of a chat, with the role only, has no token.
func hasToken(data []byte) bool {
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

// valueOf returns the text from the value of a key on. A key cannot occur inside a string, where its quotes would be
// escaped.
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

// readUsage copies the last usage in text, if there is one.
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

// Tokens returns the output tokens: the server's count, or the number of pieces if the server reported none. counted
// reports that they are pieces.
func (a *Answer) Tokens() (n int, counted bool) {
	if a.Output >= 0 {
		return a.Output, false
	}
	return a.Pieces, a.Pieces > 0
}
