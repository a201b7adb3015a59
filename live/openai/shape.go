package openai

import (
	"strconv"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/engine"
)

// appendHead appends the beginning of a response or an event, up to its choices.
func (a *Answer) appendHead(dst []byte) []byte {
	if a.head == nil {
		prefix, object := "cmpl-", "text_completion"
		if a.request.Kind == Chat {
			prefix, object = "chatcmpl-", "chat.completion"
			if a.request.Stream {
				object += ".chunk"
			}
		}
		h := appendString([]byte(`{"id":`), prefix+a.id)
		h = appendString(append(h, `,"object":`...), object)
		h = strconv.AppendInt(append(h, `,"created":`...), a.created, 10)
		h = appendString(append(h, `,"model":`...), a.model)
		a.head = append(h, `,"choices":[`...)
	}
	return append(dst, a.head...)
}

// appendTail appends the end of a response or an event. usage may be nil. last means that this is the last event of
// the choice.
func (a *Answer) appendTail(dst []byte, usage *engine.Usage, last bool) []byte {
	dst = append(dst, ']')
	if usage != nil {
		dst = append(dst, `,"usage":{"prompt_tokens":`...)
		dst = strconv.AppendUint(dst, uint64(usage.PromptTokens), 10)
		dst = strconv.AppendUint(append(dst, `,"completion_tokens":`...), uint64(usage.CompletionTokens), 10)
		dst = strconv.AppendUint(append(dst, `,"total_tokens":`...), uint64(usage.TotalTokens), 10)
		if d := usage.PromptTokensDetails; d != nil {
			dst = strconv.AppendUint(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), uint64(d.CachedTokens), 10)
			dst = append(dst, '}')
		}
		dst = append(dst, '}')
	}
	if last && a.Fingerprint != "" {
		dst = appendString(append(dst, `,"system_fingerprint":`...), a.Fingerprint)
	}
	return append(dst, '}')
}

// appendEnd appends the last keys of a choice.
func appendEnd(dst []byte, reason string, stopReason []byte, ids []uint32) []byte {
	if reason == "" {
		dst = append(dst, `,"finish_reason":null`...)
	} else {
		dst = appendString(append(dst, `,"finish_reason":`...), reason)
	}
	if len(stopReason) > 0 {
		dst = append(append(dst, `,"stop_reason":`...), stopReason...)
	}
	if len(ids) > 0 {
		dst = appendTokens(append(dst, `,"token_ids":`...), ids)
	}
	return append(dst, '}')
}

func appendTokens(dst []byte, ids []uint32) []byte {
	dst = append(dst, '[')
	for i, t := range ids {
		dst = strconv.AppendUint(appendComma(dst, i), uint64(t), 10)
	}
	return append(dst, ']')
}

// AppendWhole appends the whole response. Every choice must have ended.
func (a *Answer) AppendWhole(dst []byte) []byte {
	r := a.request
	dst = a.appendHead(dst)
	for i := range a.choices {
		c := &a.choices[i]
		dst = strconv.AppendInt(append(appendComma(dst, i), `{"index":`...), int64(i), 10)
		if r.Kind == Chat {
			dst = appendString(append(dst, `,"message":{"role":`...), r.role)
			dst = append(appendString(append(dst, `,"content":`...), c.text), '}')
		} else {
			dst = appendString(append(dst, `,"text":`...), c.text)
		}
		dst = r.appendProbs(dst, c.probs, 0)
		if r.ReturnTokenIDs && r.Kind == Completions {
			dst = appendTokens(append(dst, `,"prompt_token_ids":`...), r.promptOf(i).Tokens)
		}
		dst = appendEnd(dst, c.reason, c.stopReason, c.ids)
	}
	dst = a.appendTail(dst, a.Usage(), true)
	if r.ReturnTokenIDs && r.Kind == Chat {
		dst = appendTokens(append(dst[:len(dst)-1], `,"prompt_token_ids":`...), r.Prompts[0].Tokens)
		dst = append(dst, '}')
	}
	return dst
}

// appendProbs appends the log probabilities of a choice.
func (r *Request) appendProbs(dst []byte, probs []tokenProb, offset int) []byte {
	dst = append(dst, `,"logprobs":`...)
	switch {
	case r.LogProbs < 0, len(probs) == 0:
		return append(dst, "null"...)
	case r.Kind == Chat:
		return r.appendChatLogProbs(dst, probs)
	}
	return r.appendLogProbs(dst, probs, offset)
}

// Openings returns the events of a stream before the first token.
func (a *Answer) Openings() (events [][]byte) {
	if a.request.Kind != Chat {
		return nil
	}
	for i := range a.choices {
		e := append(a.appendHead(nil), `{"index":`...)
		e = strconv.AppendInt(e, int64(i), 10)
		e = appendString(append(e, `,"delta":{"role":`...), a.request.role)
		e = append(e, `,"content":""},"logprobs":null,"finish_reason":null}`...)
		e = a.appendTail(e, a.usageOf(0), false)
		if a.request.ReturnTokenIDs {
			e = appendTokens(append(e[:len(e)-1], `,"prompt_token_ids":`...), a.request.Prompts[0].Tokens)
			e = append(e, '}')
		}
		events = append(events, e)
	}
	return events
}

// usageOf returns the usage for an event, if each event of the stream has the usage. usageOf counts all prompts and
// the given tokens of the choice.
func (a *Answer) usageOf(tokens int) *engine.Usage {
	if !a.request.ContinuousUsage {
		return nil
	}
	return engine.NewUsage(uint32(a.request.PromptTokens()), uint32(tokens))
}

// AppendPiece appends a piece as the data of an event. AppendPiece appends nothing if the piece is empty.
func (a *Answer) AppendPiece(dst []byte, p *Piece) []byte {
	r := a.request
	if p.Tokens == 0 && len(p.Text) == 0 && p.Reason == "" {
		return dst
	}
	dst = append(a.appendHead(dst), `{"index":`...)
	dst = strconv.AppendInt(dst, int64(p.Choice), 10)
	switch {
	case r.Kind != Chat:
		dst = appendString(append(dst, `,"text":`...), p.Text)
	case p.Tokens == 0 && len(p.Text) == 0:
		dst = append(dst, `,"delta":{}`...)
	default:
		dst = append(appendString(append(dst, `,"delta":{"content":`...), p.Text), '}')
	}
	dst = r.appendProbs(dst, p.probs, p.offset)
	if p.first && r.ReturnTokenIDs && r.Kind == Completions {
		dst = appendTokens(append(dst, `,"prompt_token_ids":`...), r.promptOf(p.Choice).Tokens)
	}
	dst = appendEnd(dst, p.Reason, p.stopReason, p.ids)
	return a.appendTail(dst, a.usageOf(p.all), p.Reason != "")
}

// Closings returns the events of a stream after the end of every choice.
func (a *Answer) Closings() (events [][]byte) {
	if a.request.Usage {
		events = append(events, a.appendTail(a.appendHead(nil), a.Usage(), true))
	}
	return append(events, []byte("[DONE]"))
}

// appendString appends a text as a JSON string.
func appendString[T string | []byte](dst []byte, text T) []byte {
	for i := range len(text) {
		if b := text[i]; b < ' ' || b == '"' || b == '\\' || b >= utf8.RuneSelf {
			quoted, err := json.MarshalUnescaped(string(text))
			if err != nil {
				panic(err) // a string always encodes
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}
