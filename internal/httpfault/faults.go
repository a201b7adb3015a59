// Package httpfault injects faults into the answers of an HTTP server that simulates an engine. Faults are errors,
// queue limits, delays, cut streams, wrong usage, a loading time and a crash. A seed determines all random draws.
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

// Faults are the faults of a server. The zero value has no faults. Rates are shares of requests from 0 to 1.
type Faults struct {
	Seed uint64 `json:"seed"`

	ErrorRates  map[string]float64 `json:"error_rates"`   // rate by HTTP status, 400 to 599
	RetryAfterS int                `json:"retry_after_s"` // header Retry-After of 429 and 503; default: 1

	MaxQueuedRequests int `json:"max_queued_requests"` // maximum number of requests in flight, waiting or running; 0: no limit
	MaxQueuedTokens   int `json:"max_queued_tokens"`   // maximum number of prompt tokens of requests without a first token; 0: no limit
	QueueStatus       int `json:"queue_status"`        // status of rejected requests: 429 or 503 (default)

	CutRate        float64 `json:"cut_rate"`         // share of answers with a connection that breaks
	CutAfterTokens int     `json:"cut_after_tokens"` // number of tokens of a stream before the cut; other answers break in the middle

	SlowRate float64 `json:"slow_rate"` // share of answers with a late first byte
	SlowMS   float64 `json:"slow_ms"`

	StallRate        float64 `json:"stall_rate"` // share of streams that pause
	StallAfterTokens int     `json:"stall_after_tokens"`
	StallMS          float64 `json:"stall_ms"`

	WrongUsageRate float64 `json:"wrong_usage_rate"` // share of answers with a wrong completion_tokens

	LoadingS           float64 `json:"loading_s"`            // seconds until the server is ready; until then /health and requests get 503
	CrashAfterRequests int     `json:"crash_after_requests"` // the request with this number ends the server; 0: no crash

	KVLostRate float64 `json:"kv_lost_rate"` // share of batches of KV events that subscribers do not receive
	KVLateMS   float64 `json:"kv_late_ms"`   // delay of all batches of KV events
}

// mostMS bounds delays, in milliseconds.
const mostMS = 3_600_000

// Read returns the faults of a JSON object. Text that begins with @ is the path of a file with the object.
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

// check returns an error for the first invalid value.
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

// Kinds of faults, as metrics name them.
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

// draw returns a random number from 0 to 1 for a request or batch, by its number. Each kind of fault has a separate
// random stream of the seed.
func (f *Faults) draw(kind string, number uint64) float64 {
	stream := f.Seed
	for _, b := range []byte(kind) {
		stream = (stream ^ uint64(b)) * 0x100000001b3
	}
	return rand.New(rand.NewPCG(stream, number)).Float64()
}

// errorOf returns the HTTP status of the injected error for a request, by its number. errorOf returns 0 for no error.
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

// convertMS converts milliseconds to a Duration.
func convertMS(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
