// Package httpfault injects faults into the answers of an HTTP server that stands in for an engine. Faults are errors, queue
// limits, delays, cut streams, wrong usage, a loading time and a crash. The draws follow a seed.
//
// Read faults.go, then injector.go.
package httpfault

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/nearest"
)

// Faults are the faults of a server. The zero value has none. Rates are shares of requests from 0 to 1.
type Faults struct {
	Seed uint64 `json:"seed"`

	ErrorRates  map[string]float64 `json:"error_rates"`   // by HTTP status, 400 to 599
	RetryAfterS int                `json:"retry_after_s"` // header Retry-After of 429 and 503; default 1

	MaxQueuedRequests int `json:"max_queued_requests"` // in flight, waiting and running; more are rejected. 0: no limit
	MaxQueuedTokens   int `json:"max_queued_tokens"`   // of prompts without a first token. 0: no limit
	QueueStatus       int `json:"queue_status"`        // of rejected requests: 429 or 503, the default

	CutRate        float64 `json:"cut_rate"`         // answers with a connection that breaks
	CutAfterTokens int     `json:"cut_after_tokens"` // of a stream; a whole answer breaks in its middle

	SlowRate float64 `json:"slow_rate"` // answers with a late first byte
	SlowMS   float64 `json:"slow_ms"`

	StallRate        float64 `json:"stall_rate"` // streams that pause
	StallAfterTokens int     `json:"stall_after_tokens"`
	StallMS          float64 `json:"stall_ms"`

	WrongUsageRate float64 `json:"wrong_usage_rate"` // answers with a wrong completion_tokens

	LoadingS           float64 `json:"loading_s"`            // until the server is ready; /health and requests get 503
	CrashAfterRequests int     `json:"crash_after_requests"` // the request of this number ends the server; 0: none

	KVLostRate float64 `json:"kv_lost_rate"` // batches of KV events that subscribers miss
	KVLateMS   float64 `json:"kv_late_ms"`   // delay of all batches
}

// mostMS bounds delays.
const mostMS = 3_600_000

// Read returns the faults of a JSON object, or of the file that follows @.
func Read(text string) (*Faults, error) {
	if path, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := Parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return f, nil
	}
	return Parse([]byte(text))
}

// Parse returns the faults of a JSON object.
func Parse(text []byte) (*Faults, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, fmt.Errorf("must be a JSON object of faults: %w", err)
	}
	var known []string
	for field := range reflect.TypeFor[Faults]().Fields() {
		known = append(known, field.Tag.Get("json"))
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("no key %.100q%s", key, nearest.Ask(key, known))
		}
	}
	f := &Faults{RetryAfterS: 1, QueueStatus: 503}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(f); err != nil {
		return nil, err
	}
	return f, f.check()
}

// check returns the first rule that a value breaks.
func (f *Faults) check() error {
	for _, status := range slices.Sorted(maps.Keys(f.ErrorRates)) {
		if n, err := strconv.Atoi(status); err != nil || n < 400 || n > 599 {
			return fmt.Errorf("error_rates: status is %.20q, must be 400 to 599", status)
		}
		if rate := f.ErrorRates[status]; !(rate >= 0 && rate <= 1) {
			return fmt.Errorf("error_rates: rate of %s is %v, must be 0 to 1", status, rate)
		}
	}
	if f.QueueStatus != 429 && f.QueueStatus != 503 {
		return fmt.Errorf("queue_status is %d, must be 429 or 503", f.QueueStatus)
	}
	for _, rule := range []struct {
		key         string
		value, most float64
	}{
		{"cut_rate", f.CutRate, 1}, {"slow_rate", f.SlowRate, 1}, {"stall_rate", f.StallRate, 1}, {"wrong_usage_rate", f.WrongUsageRate, 1}, {"kv_lost_rate", f.KVLostRate, 1},
		{"slow_ms", f.SlowMS, mostMS}, {"stall_ms", f.StallMS, mostMS}, {"kv_late_ms", f.KVLateMS, mostMS}, {"loading_s", f.LoadingS, mostMS / 1000},
		{"retry_after_s", float64(f.RetryAfterS), mostMS / 1000}, {"max_queued_requests", float64(f.MaxQueuedRequests), 1 << 30}, {"max_queued_tokens", float64(f.MaxQueuedTokens), 1 << 40},
		{"cut_after_tokens", float64(f.CutAfterTokens), 1 << 30}, {"stall_after_tokens", float64(f.StallAfterTokens), 1 << 30}, {"crash_after_requests", float64(f.CrashAfterRequests), 1 << 30},
	} {
		if !(rule.value >= 0 && rule.value <= rule.most) {
			return fmt.Errorf("%s is %v, must be 0 to %v", rule.key, rule.value, rule.most)
		}
	}
	return nil
}

// The kinds of faults, as metrics name them.
const (
	Error      = "error"
	Cut        = "cut"
	Slow       = "slow_first_byte"
	Stall      = "stall"
	WrongUsage = "wrong_usage"
	Loading    = "loading"
	Crash      = "crash"
	KVLost     = "kv_lost"
	KVLate     = "kv_late"
)

// draw returns a number from 0 to 1 for the request or batch of a number. Each kind of fault has a stream of the seed.
func (f *Faults) draw(kind string, number uint64) float64 {
	stream := f.Seed
	for _, b := range []byte(kind) {
		stream = (stream ^ uint64(b)) * 0x100000001b3
	}
	return rand.New(rand.NewPCG(stream, number)).Float64()
}

// errorOf returns the status that the request of a number gets, 0: none.
func (f *Faults) errorOf(number uint64) int {
	at := f.draw(Error, number)
	for _, status := range slices.Sorted(maps.Keys(f.ErrorRates)) {
		if at -= f.ErrorRates[status]; at < 0 {
			n, _ := strconv.Atoi(status)
			return n
		}
	}
	return 0
}

// convertMS returns a time.
func convertMS(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
