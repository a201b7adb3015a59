package formats

import (
	"bytes"
	"fmt"
)

func isGenAI(o *object) bool { return o.openFirst("experiments").has("requests") }

// openGenAI reads the profile export of genai-perf.
func openGenAI(s *Stream) (rows, error) {
	g := &gathered{s: s}
	t, err := s.newTexts()
	if err != nil {
		return nil, err
	}
	s.Measured, s.Chained = true, s.o.Sessions != "flat"
	ends := make(lastEnds)
	return g, g.eachObject(func(f *fields) error {
		run, err := s.openRun(f, "experiments")
		if err != nil {
			return err
		}
		for _, q := range run.elements("requests") {
			r := Record{Line: f.line}
			if err := q.readGenAI(s, t, &r); err != nil {
				return fmt.Errorf("%s%w", q.place, err)
			}
			if q.err != nil {
				return q.err
			}
			g.linkAfter(&r, ends)
		}
		return nil
	})
}

func (f *fields) readGenAI(s *Stream, t *texts, r *Record) error {
	r.arrives(f.needStamp("timestamp", 0))
	stamps := f.readList("response_timestamps")
	r.ended = r.when
	if n := len(stamps); n > 0 {
		if end, ok := decimalStamp(stamps[n-1], 0); ok {
			r.ended = end
		}
	}
	if id := f.readName("sequence_id"); id != nil && string(id) != "0" {
		r.Session, r.Group = id, id
	}
	switch answer := t.countAnswer(f.readList("response_outputs")); {
	case s.o.OutputTokens > 0:
		r.Output = s.o.OutputTokens
	case answer > 0:
		r.Output = answer
	default:
		r.Output = len(stamps)
		s.inPieces()
	}
	inputs := f.openSub("request_inputs")
	return t.fillPrompt(r, t.collectPrompt(listPayloads(&inputs.object)...))
}

// listPayloads are the values of the members, parsed where they are JSON in a
// string.
func listPayloads(f *object) [][]byte {
	var all [][]byte
	for _, m := range f.members {
		v := m.value
		if len(v) > 0 && v[0] == '"' {
			if inner := unquoteString(v); len(inner) > 0 && inner[0] == '{' {
				s := partsOf(inner)
				if s.skipValue() == nil {
					v = inner
				}
			}
		}
		all = append(all, v)
	}
	return all
}

// countAnswer is the number of tokens of an answer that came in pieces: bodies, or
// the events of a stream. It is 0 without a tokenizer, or without a text.
func (t *texts) countAnswer(pieces [][]byte) int {
	if t.tokens == nil {
		return 0
	}
	var said []byte
	for _, p := range pieces {
		var o object
		o.reparseText(p)
		v := o.find("response")
		if len(v) == 0 || v[0] != '"' {
			continue
		}
		for line := range bytes.Lines(unquoteString(v)) {
			said = append(said, choiceText(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("data:")))...)
		}
	}
	return len(t.tokens.AppendBare(nil, string(said)))
}

// choiceText is the text of the first choice in a body of OpenAI's, whole or a
// piece; nil where there is none.
func choiceText(body []byte) []byte {
	var o object
	if o.parseText(body) != nil {
		return nil
	}
	choice := o.openFirst("choices")
	for _, v := range [][]byte{choice.openInner("delta").find("content"), choice.openInner("message").find("content"), choice.find("text")} {
		if len(v) > 0 && v[0] == '"' {
			return unquoteString(v)
		}
	}
	return nil
}

// inPieces warns, once, that answers were counted by the pieces they came in.
func (s *Stream) inPieces() {
	if !s.counted {
		s.counted = true
		s.o.warn(s.Name + ": answers are counted by the pieces they came in, not by tokens; want --tokenizer or --output-len")
	}
}
