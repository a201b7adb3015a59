package formats

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
)

// vllmLogName is the name of vLLM's log as a format.
const vllmLogName = "vllm-log"

// isVLLMLog reports whether one of the first lines is of vLLM's log.
func isVLLMLog(samples []sample) bool {
	stamp := newLogStamp()
	return slices.ContainsFunc(samples, func(s sample) bool { return stamp.Match(s.text) })
}

// newLogStamp matches level and time of a line of vLLM's log, as INFO 06-08 18:55:35 and then
// the file that logs.
func newLogStamp() *regexp.Regexp {
	return regexp.MustCompile(`(?:DEBUG|INFO|WARNING|ERROR) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d) \[?[\w./]+\.py:\d+\]`)
}

// logRows reads the requests that a vLLM server logged with --enable-log-requests. Prompts
// become lengths and hashes by a key that is drawn anew, and are not kept.
type logRows struct {
	gathered
	t         *texts
	stamp     *regexp.Regexp
	limit     *regexp.Regexp
	year      int
	month     int
	byID      map[string]int    // requests by id: their places in all
	prompts   map[string]Record // of requests of which a line before told the prompt
	answered  map[string]int    // tokens of answers that the log tells
	untold    int               // requests of which no line tells the prompt
	firstLine int               // of those
}

func openVLLMLog(s *Stream) (rows, error) {
	if s.o.Key == nil {
		s.o.Key = make([]byte, 32)
		if _, err := rand.Read(s.o.Key); err != nil {
			return nil, err
		}
	}
	s.o.TraceBlock = cmp.Or(s.o.TraceBlock, 16) // vLLM's own
	t, err := s.newTexts()
	if err != nil {
		return nil, err
	}
	s.Approximate = false
	x := &logRows{
		gathered: gathered{s: s}, t: t, stamp: newLogStamp(), limit: regexp.MustCompile(`\bmax_tokens=(\d+|None)`), year: 2000,
		byID: map[string]int{}, prompts: map[string]Record{}, answered: map[string]int{},
	}
	for {
		line, err := s.lines.next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = x.readLine(line)
		}
		if _, fatal := err.(*fatalError); fatal {
			return nil, err
		}
		if err != nil {
			x.bad = append(x.bad, err)
			if s.o.stops() {
				return x, nil
			}
		}
	}
	return x, x.finish()
}

// finish sets the lengths of answers, by what the log tells of them or else by what was asked
// for.
func (x *logRows) finish() error {
	if x.untold > 0 {
		return rowAt(x.s.Name, x.firstLine, fmt.Errorf("no line tells the prompt of %d requests: want a log of VLLM_LOGGING_LEVEL=DEBUG, in which releases from 0.11 on have it", x.untold))
	}
	if len(x.all) == 0 && len(x.bad) == 0 {
		return &loadgen.SyntaxError{Name: x.s.Name, Msg: "no line says \"Received request\", want the log of a vLLM server with --enable-log-requests"}
	}
	assumed := 0
	for id, i := range x.byID {
		r := &x.all[i]
		switch n := x.answered[id]; {
		case n > 0:
			r.Output = n
		case x.s.o.OutputTokens > 0:
			r.Output = x.s.o.OutputTokens
		default:
			assumed++
		}
	}
	if assumed > 0 {
		x.s.o.warn(fmt.Sprintf("%s: %d of %d answers are taken to be as long as max_tokens, since the log does not tell: --output-len says otherwise", x.s.Name, assumed, len(x.all)))
	}
	if x.s.o.Jitter == "" && len(x.all) > 1 {
		x.s.o.warn(x.s.Name + ": arrivals are whole seconds, as the log has them: --jitter second spreads them")
	}
	slices.SortStableFunc(x.all, func(a, b Record) int { return a.when.compare(b.when) })
	return nil
}

// readLine reads a line of the log; most are about something else.
func (x *logRows) readLine(line []byte) error {
	at := x.stamp.FindSubmatchIndex(line)
	if at == nil {
		return nil
	}
	message := bytes.TrimSpace(line[at[1]:])
	var err error
	switch {
	case bytes.HasPrefix(message, []byte("Received request ")):
		err = x.readRequest(line, at, message[len("Received request "):])
	case bytes.HasPrefix(message, []byte("Request ")):
		id, rest, ok := bytes.Cut(message[len("Request "):], []byte(" details: "))
		if ok {
			r := Record{Private: true}
			if _, err = x.readPrompt(&r, rest); err == nil && !r.Private {
				x.prompts[string(id)] = r
			}
		}
	case bytes.HasPrefix(message, []byte("Generated response ")):
		x.readAnswer(message[len("Generated response "):])
	}
	if err != nil {
		return x.s.lines.errorf("%v", err)
	}
	return nil
}

// readRequest reads ID: prompt: 'TEXT', params: SamplingParams(...), prompt_token_ids: [...],
// of which newer releases tell the prompt in a line of its own before.
func (x *logRows) readRequest(line []byte, at []int, message []byte) error {
	id, rest, ok := bytes.Cut(message, []byte(": "))
	if !ok {
		return errors.New(`no ": " after the id of a request, want what was logged of it`)
	}
	r := Record{Line: x.s.lines.line, Private: true}
	rest, err := x.readPrompt(&r, rest)
	if err != nil {
		return err
	}
	params := bytes.Index(rest, []byte("params: SamplingParams("))
	if params < 0 {
		x.s.dropped++ // to be embedded, or the like
		return nil
	}
	if r.Private {
		told, ok := x.prompts[string(id)]
		if !ok {
			if x.untold++; x.untold == 1 {
				x.firstLine = x.s.lines.line
			}
			return nil
		}
		r.Input, r.IDs, r.Private = told.Input, told.IDs, false
		delete(x.prompts, string(id))
	}
	m := x.limit.FindSubmatch(rest[params:])
	if m == nil {
		return errors.New("no max_tokens in params, want SamplingParams with it")
	}
	n, _ := strconv.Atoi(string(m[1])) // None counts as 0, which is left out unless something else tells it
	if r.Output = n; n > maxTokens {
		return fmt.Errorf("max_tokens is %s, want at most %d", m[1], maxTokens)
	}
	r.arrives(x.instantOf(line, at))
	x.byID[string(id)] = len(x.all)
	x.all = append(x.all, r.Clone())
	return nil
}

// instantOf is the time of a line. The log has no year: one begins where months fall.
func (x *logRows) instantOf(line []byte, at []int) stamp {
	var n [5]int
	for i := range n {
		n[i], _ = strconv.Atoi(string(line[at[2+2*i]:at[3+2*i]])) // they are digits
	}
	if n[0] < x.month {
		x.year++
	}
	x.month = n[0]
	s := exactStamp(time.Date(x.year, time.Month(n[0]), n[1], n[2], n[3], n[4], 0, time.UTC).UnixNano())
	s.free = true
	return s
}

// readPrompt reads what a message tells of a prompt: its token ids, or its text. It returns
// what follows the text.
func (x *logRows) readPrompt(r *Record, message []byte) (rest []byte, err error) {
	var text []byte
	rest = message
	told := false
	if after, ok := bytes.CutPrefix(message, []byte("prompt: ")); ok {
		if text, rest, told, err = pythonText(after); err != nil {
			return nil, fmt.Errorf("prompt: %w", err)
		}
	}
	if _, list, ok := bytes.Cut(rest, []byte("prompt_token_ids: [")); ok {
		list, _, ended := bytes.Cut(list, []byte{']'})
		if !ended {
			return nil, errors.New("prompt_token_ids have no end, want a list of numbers")
		}
		if len(bytes.TrimSpace(list)) > 0 {
			r.Private = false
			return rest, x.fillIDs(r, list)
		}
	}
	if !told || len(text) == 0 {
		return rest, nil
	}
	r.Private, x.s.Approximate = false, x.t.tokens == nil
	return rest, x.t.fillPrompt(r, text)
}

// fillIDs gives r length and blocks of a list of token ids.
func (x *logRows) fillIDs(r *Record, list []byte) error {
	ids := x.t.ids[:0]
	for part := range bytes.SplitSeq(list, []byte{','}) {
		n, err := strconv.ParseUint(string(bytes.TrimSpace(part)), 10, 32)
		if err != nil {
			return fmt.Errorf("prompt_token_ids[%d] is %q, want a whole number", len(ids), excerpt.Cut(part))
		}
		ids = append(ids, uint32(n))
	}
	x.t.ids = ids
	x.t.fillTokens(r, ids)
	return nil
}

// readAnswer reads ID: output: ..., output_token_ids: [...], which may be a part of a stream
// or what it came to.
func (x *logRows) readAnswer(message []byte) {
	end := bytes.IndexAny(message, " :")
	_, list, ok := bytes.Cut(message, []byte("output_token_ids: ["))
	if end < 0 || !ok {
		return
	}
	list, _, _ = bytes.Cut(list, []byte{']'})
	tokens := 0
	if len(bytes.TrimSpace(list)) > 0 {
		tokens = 1 + bytes.Count(list, []byte{','})
	}
	id := string(message[:end])
	if bytes.HasPrefix(message[end:], []byte(" (streaming delta)")) {
		x.answered[id] += tokens
		return
	}
	x.answered[id] = max(x.answered[id], tokens)
}

// pythonText reads the string at the begin of text as Python's repr writes it, or None.
func pythonText(text []byte) (value, rest []byte, told bool, err error) {
	if rest, ok := bytes.CutPrefix(text, []byte("None")); ok {
		return nil, rest, false, nil
	}
	if len(text) == 0 || text[0] != '\'' && text[0] != '"' {
		return nil, nil, false, fmt.Errorf("%q, want a text in quotes, or None", excerpt.Cut(text))
	}
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == text[0]:
			return value, text[i+1:], true, nil
		case c != '\\' || i+1 == len(text):
			value = append(value, c)
		default:
			i++
			i += appendEscaped(&value, text[i:])
		}
	}
	return nil, nil, false, errors.New("the text has no end, want a quote")
}

// appendEscaped appends what stands for a backslash and text, and returns how many bytes more
// than one that took.
func appendEscaped(value *[]byte, text []byte) int {
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[text[0]]
	if digits > 0 && len(text) > digits {
		if n, err := strconv.ParseUint(string(text[1:1+digits]), 16, 32); err == nil {
			*value = utf8.AppendRune(*value, rune(n))
			return digits
		}
	}
	if i := bytes.IndexByte([]byte("ntr"), text[0]); i >= 0 {
		*value = append(*value, "\n\t\r"[i])
	} else {
		*value = append(*value, text[0])
	}
	return 0
}
