package texts

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// VLLMLog is the name of the format of vLLM logs.
const VLLMLog = "vllm-log"

// IsVLLMLog reports whether a line is from a vLLM log.
func IsVLLMLog(line []byte) bool { return newLogStamp().Match(line) }

// newLogStamp matches the level, the time and the source file of a line in a vLLM log. An example of level and time
// is INFO 06-08 18:55:35.
func newLogStamp() *regexp.Regexp {
	return regexp.MustCompile(`(?:DEBUG|INFO|WARNING|ERROR) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d) \[?[\w./]+\.py:\d+\]`)
}

// logRows reads the requests in the log of a vLLM server that runs with --enable-log-requests. Prompts are replaced
// by their lengths and by hashes with a random key.
type logRows struct {
	formats.Gathered
	t         *Counter
	stamp     *regexp.Regexp
	limit     *regexp.Regexp
	year      int
	month     int
	byID      map[string]int            // index in All, by request id
	prompts   map[string]formats.Record // prompts in earlier lines, by request id
	answered  map[string]int            // logged output tokens, by request id
	untold    int                       // number of requests without a logged prompt
	firstLine int                       // line of the first of them
}

// OpenVLLMLog opens the log of a vLLM server.
func OpenVLLMLog(s *formats.Stream) (formats.Reader, error) {
	if s.Options.Key == nil {
		s.Options.Key = make([]byte, 32)
		if _, err := rand.Read(s.Options.Key); err != nil {
			return nil, err
		}
	}
	s.Options.TraceBlock = cmp.Or(s.Options.TraceBlock, 16) // default block size of vLLM
	t, err := New(s)
	if err != nil {
		return nil, err
	}
	s.Approximate = false
	x := &logRows{
		Gathered: formats.Gathered{S: s}, t: t, stamp: newLogStamp(), limit: regexp.MustCompile(`\bmax_tokens=(\d+|None)`), year: 2000,
		byID: map[string]int{}, prompts: map[string]formats.Record{}, answered: map[string]int{},
	}
	for {
		line, err := s.Lines.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = x.readLine(line)
		}
		if scan.IsFatal(err) {
			return nil, err
		}
		if err != nil {
			x.Bad = append(x.Bad, err)
			if s.Options.StopsAtBad() {
				return x, nil
			}
		}
	}
	return x, x.finish()
}

// finish sets the lengths of answers. A length in the log has priority over the requested length.
func (x *logRows) finish() error {
	if x.untold > 0 {
		return scan.RowError(x.S.Name, x.firstLine, fmt.Errorf("no line tells the prompt of %d requests: must be a log of VLLM_LOGGING_LEVEL=DEBUG, in which releases from 0.11 on have it", x.untold))
	}
	if len(x.All) == 0 && len(x.Bad) == 0 {
		return &loadgen.SyntaxError{Name: x.S.Name, Msg: "no line has \"Received request\", expected the log of a vLLM server with --enable-log-requests"}
	}
	assumed := 0
	for id, i := range x.byID {
		r := &x.All[i]
		switch n := x.answered[id]; {
		case n > 0:
			r.Output = n
		case x.S.Options.OutputTokens > 0:
			r.Output = x.S.Options.OutputTokens
		default:
			assumed++
		}
	}
	if assumed > 0 {
		x.S.Warn(fmt.Sprintf("%s: %d of %d answers are taken to be as long as max_tokens, since the log has no lengths: --output-len sets another length", x.S.Name, assumed, len(x.All)))
	}
	if x.S.Options.Jitter == "" && len(x.All) > 1 {
		x.S.Warn(x.S.Name + ": arrivals are whole seconds, as the log has them: --jitter second spreads them")
	}
	sort.SliceStable(x.All, func(i, j int) bool { return x.All[i].When.Compare(x.All[j].When) < 0 })
	return nil
}

// readLine reads a line of the log. readLine ignores lines that are not about requests.
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
			r := formats.Record{Private: true}
			if _, err = x.readPrompt(&r, rest); err == nil && !r.Private {
				x.prompts[string(id)] = r
			}
		}
	case bytes.HasPrefix(message, []byte("Generated response ")):
		x.readAnswer(message[len("Generated response "):])
	}
	if err != nil {
		return x.S.Lines.Errorf("%v", err)
	}
	return nil
}

// readRequest reads ID: prompt: 'TEXT', params: SamplingParams(...), prompt_token_ids: [...]. Newer releases log the
// prompt in a separate earlier line.
func (x *logRows) readRequest(line []byte, at []int, message []byte) error {
	id, rest, ok := bytes.Cut(message, []byte(": "))
	if !ok {
		return errors.New(`no ": " after the id of a request, expected what was logged of it`)
	}
	r := formats.Record{Line: x.S.Lines.Line, Private: true}
	rest, err := x.readPrompt(&r, rest)
	if err != nil {
		return err
	}
	params := bytes.Index(rest, []byte("params: SamplingParams("))
	if params < 0 {
		x.S.Drop() // not a generation request, for example an embedding request
		return nil
	}
	if r.Private {
		told, ok := x.prompts[string(id)]
		if !ok {
			if x.untold++; x.untold == 1 {
				x.firstLine = x.S.Lines.Line
			}
			return nil
		}
		r.Input, r.IDs, r.Private = told.Input, told.IDs, false
		delete(x.prompts, string(id))
	}
	m := x.limit.FindSubmatch(rest[params:])
	if m == nil {
		return errors.New("no max_tokens in params, requires SamplingParams")
	}
	n, _ := strconv.Atoi(string(m[1])) // None becomes 0; such requests are dropped if the length remains unknown
	if r.Output = n; n > scan.MaxTokens {
		return fmt.Errorf("max_tokens is %s, must be at most %d", m[1], scan.MaxTokens)
	}
	r.Arrives(x.instantOf(line, at))
	x.byID[string(id)] = len(x.All)
	x.All = append(x.All, r.Clone())
	return nil
}

// instantOf returns the time of a line. The log has no year, so a new year starts when the month decreases.
func (x *logRows) instantOf(line []byte, at []int) scan.Stamp {
	var n [5]int
	for i := range n {
		n[i], _ = strconv.Atoi(string(line[at[2+2*i]:at[3+2*i]])) // always digits
	}
	if n[0] < x.month {
		x.year++
	}
	x.month = n[0]
	s := scan.ExactStamp(time.Date(x.year, time.Month(n[0]), n[1], n[2], n[3], n[4], 0, time.UTC).UnixNano())
	s.Free = true
	return s
}

// readPrompt reads the prompt of a message, as token ids or text. rest is the message after the text.
func (x *logRows) readPrompt(r *formats.Record, message []byte) (rest []byte, err error) {
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
			return nil, errors.New("prompt_token_ids have no end, must be a list of numbers")
		}
		if len(bytes.TrimSpace(list)) > 0 {
			r.Private = false
			return rest, x.fillIDs(r, list)
		}
	}
	if !told || len(text) == 0 {
		return rest, nil
	}
	r.Private, x.S.Approximate = false, x.t.tokens == nil
	return rest, x.t.FillPrompt(r, text)
}

// fillIDs sets the length and the block ids of r to those of a list of token ids.
func (x *logRows) fillIDs(r *formats.Record, list []byte) error {
	ids := x.t.ids[:0]
	for part := range bytes.SplitSeq(list, []byte{','}) {
		n, err := strconv.ParseUint(string(bytes.TrimSpace(part)), 10, 32)
		if err != nil {
			return fmt.Errorf("prompt_token_ids[%d] is %q, must be a whole number", len(ids), excerpt.Cut(part))
		}
		ids = append(ids, uint32(n))
	}
	x.t.ids = ids
	x.t.fillTokens(r, ids)
	return nil
}

// readAnswer reads ID: output: ..., output_token_ids: [...]. A line has a part of a streamed answer, or a complete
// answer.
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

// pythonText parses a Python string literal or None at the start of text. told is false for None.
func pythonText(text []byte) (value, rest []byte, told bool, err error) {
	if rest, ok := bytes.CutPrefix(text, []byte("None")); ok {
		return nil, rest, false, nil
	}
	if len(text) == 0 || text[0] != '\'' && text[0] != '"' {
		return nil, nil, false, fmt.Errorf("%q, must be a text in quotes, or None", excerpt.Cut(text))
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
	return nil, nil, false, errors.New("the text has no end, must be a quote")
}

// appendEscaped appends the character of an escape sequence. text starts after the backslash. The result is the
// number of used bytes minus 1.
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
