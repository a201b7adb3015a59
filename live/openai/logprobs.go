package openai

import (
	"math"
	"strconv"

	"github.com/replay-llm/replay/sim/blockhash"
)

// maxLogProbs is the maximum number of log probabilities of one token.
const maxLogProbs = 20

// tokenProb is the log probability of a token.
type tokenProb struct {
	token   uint32
	text    string
	bytes   []byte
	logProb float64
	top     []tokenProb // the token itself and the most probable alternatives; nil for alternatives
	unknown bool        // the first token of a prompt has no log probability
}

// newTokenProb returns the log probabilities of a token and of its alternatives, n entries in all. No model computed
// the values: they are hashed from token and position. The probabilities sum to less than 1.
func newTokenProb(token uint32, position int, text string, n int) tokenProb {
	draw := blockhash.Tokens([]uint32{token, uint32(position)})
	p := 0.4 + 0.55*float64(draw>>11)/(1<<53)
	t := tokenProb{token: token, text: text, bytes: bytesOf(token, text), logProb: roundedLog(p)}
	if n > 0 {
		t.top = append(t.top, tokenProb{token: token, text: t.text, bytes: t.bytes, logProb: t.logProb})
	}
	left, other := 1-p, uint32(draw%wordCount)
	for len(t.top) < n {
		left /= 2
		if other = (other + 1) % wordCount; firstWord+other == token {
			continue
		}
		word := " " + wordOf(firstWord+other)
		t.top = append(t.top, tokenProb{token: firstWord + other, text: word, bytes: []byte(word), logProb: roundedLog(left)})
	}
	return t
}

// roundedLog returns the logarithm, rounded to six decimals. The result is the same on every machine.
func roundedLog(p float64) float64 { return math.Round(math.Log(p)*1e6) / 1e6 }

// bytesOf returns the bytes of a token. The bytes may be a part of a character.
func bytesOf(token uint32, text string) []byte {
	if b, ok := tokenBytes(nil, token); ok {
		return b
	}
	return []byte(text)
}

// name returns the token's name in responses: its text, or its id if asID is true.
func (t *tokenProb) name(asID bool) string {
	if asID {
		return "token_id:" + strconv.FormatUint(uint64(t.token), 10)
	}
	return t.text
}

// appendLogProbs appends log probabilities in the format of completions. offset is the position of the first token's
// text.
func (r *Request) appendLogProbs(dst []byte, all []tokenProb, offset int) []byte {
	dst = append(dst, `{"text_offset":[`...)
	for i := range all {
		dst = strconv.AppendInt(appendComma(dst, i), int64(offset), 10)
		offset += len([]rune(all[i].text))
	}
	dst = append(dst, `],"token_logprobs":[`...)
	for i := range all {
		dst = all[i].appendLogProb(appendComma(dst, i))
	}
	dst = append(dst, `],"tokens":[`...)
	for i := range all {
		dst = appendString(appendComma(dst, i), all[i].name(r.tokensAsIDs))
	}
	dst = append(dst, `],"top_logprobs":[`...)
	for i := range all {
		if dst = appendComma(dst, i); all[i].unknown {
			dst = append(dst, "null"...)
			continue
		}
		dst = append(dst, '{')
		for j := range all[i].top {
			top := &all[i].top[j]
			dst = append(appendString(appendComma(dst, j), top.name(r.tokensAsIDs)), ':')
			dst = top.appendLogProb(dst)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}

// appendChatLogProbs appends log probabilities in the format of chat completions.
func (r *Request) appendChatLogProbs(dst []byte, all []tokenProb) []byte {
	dst = append(dst, `{"content":[`...)
	for i := range all {
		t := &all[i]
		dst = append(r.appendChatToken(appendComma(dst, i), t), `,"top_logprobs":[`...)
		for j := range t.top {
			dst = append(r.appendChatToken(appendComma(dst, j), &t.top[j]), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, "]}"...)
}

// appendChatToken appends a token in the format of chat completions, without the closing brace.
func (r *Request) appendChatToken(dst []byte, t *tokenProb) []byte {
	dst = appendString(append(dst, `{"token":`...), t.name(r.tokensAsIDs))
	dst = t.appendLogProb(append(dst, `,"logprob":`...))
	dst = append(dst, `,"bytes":[`...)
	for i, b := range t.bytes {
		dst = strconv.AppendUint(appendComma(dst, i), uint64(b), 10)
	}
	return append(dst, ']')
}

func (t *tokenProb) appendLogProb(dst []byte) []byte {
	if t.unknown {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, t.logProb, 'f', -1, 64)
}

// appendComma appends a comma if i is more than 0.
func appendComma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}
