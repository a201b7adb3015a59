package silicon

import (
	"math"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler/optables"
	"github.com/replay-llm/replay/sim"
)

// FrontEnd is the time between a client and the scheduler: HTTP, tokenization, and the return of the first token.
type FrontEnd struct {
	Base  float64 // time per request in ms
	Token float64 // time per prompt token in ms
}

// FrontEndOf returns the front end of an engine. The values were fitted to the mean TTFT of some 600 measured servers
// with at most 8 requests in flight: docs/accuracy.md.
func FrontEndOf(e optables.Engine) FrontEnd {
	switch e {
	case optables.SGLang:
		return FrontEnd{125, 0}
	case optables.TRTLLM:
		return FrontEnd{15, 0.0015}
	}
	return FrontEnd{3, 0.005}
}

// Of returns the time for a request with the given number of prompt tokens.
func (f FrontEnd) Of(tokens int) sim.Time {
	return sim.Time(f.Base + float64(f.Token*float64(tokens)))
}

// IsZero reports whether the front end takes no time.
func (f FrontEnd) IsZero() bool { return f == FrontEnd{} }

// perToken is the suffix of the second part of a FrontEnd as text.
const perToken = "/token"

// ParseFrontEnd parses the text of String: ms, or ms and ms per prompt token, for example 3.2+0.004/token.
func ParseFrontEnd(text string) (f FrontEnd, err error) {
	base, token, both := strings.Cut(text, "+")
	if both {
		var ok bool
		if token, ok = strings.CutSuffix(token, perToken); !ok {
			return f, refuseFrontEnd(text)
		}
		if f.Token, err = parseMs(token); err != nil {
			return f, refuseFrontEnd(text)
		}
	}
	if f.Base, err = parseMs(base); err != nil {
		return f, refuseFrontEnd(text)
	}
	return f, nil
}

// mostMs is the maximum time, in ms: a day.
const mostMs = 24 * 3600 * 1e3

func parseMs(text string) (float64, error) {
	ms, err := strconv.ParseFloat(text, 64)
	if err == nil && !(ms >= 0 && ms <= mostMs) {
		return 0, strconv.ErrRange
	}
	return math.Abs(ms), err // -0 is 0
}

func refuseFrontEnd(text string) error {
	return excerpt.Errorf("%q: must be ms of at least 0, or ms and ms per prompt token, as 3.2+0.004/token", text)
}

// String returns the front end as text for ParseFrontEnd.
func (f FrontEnd) String() string {
	text := strconv.FormatFloat(f.Base, 'g', -1, 64)
	if f.Token != 0 {
		text += "+" + strconv.FormatFloat(f.Token, 'g', -1, 64) + perToken
	}
	return text
}
