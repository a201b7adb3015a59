package reference

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
)

// Request is the result of one request. Times are in ms of the simulated clock, and nil if the event did not happen.
type Request struct {
	ArrivalMS     float64  `json:"arrival_ms"`
	AdmitMS       *float64 `json:"admit_ms"`
	Reused        int      `json:"reused_input_tokens"`
	InputTokens   int      `json:"input_length"`
	OutputTokens  int      `json:"output_length"`
	Tokens        int      `json:"n_tokens"`
	FirstMS       *float64 `json:"first_token_ms"`
	SecondMS      *float64 `json:"second_token_ms"`
	LastMS        *float64 `json:"last_token_ms"`
	Worker        *int     `json:"worker"`
	PrefillWorker *int     `json:"prefill_worker"` // only with disaggregated prefill
	Session       int      `json:"session"`
	Turn          int      `json:"turn"`
	ArrivalOrder  int      `json:"arrival_order"`
}

// Requests returns the requests of c in order of arrival.
func Requests(c *collector.Collector) []Request {
	requests := make([]Request, 0, c.Len())
	for id, r := range c.Requests() {
		requests = append(requests, Request{
			ArrivalMS: float64(r.Arrival),
			AdmitMS:   newOptional(float64(r.Admit), r.Admitted()),
			Reused:    int(r.Reused), InputTokens: int(r.InputTokens), OutputTokens: int(r.OutputTokens),
			Tokens:        int(r.Tokens),
			FirstMS:       newOptional(float64(r.First), r.Tokens >= 1),
			SecondMS:      newOptional(float64(r.Second), r.Tokens >= 2),
			LastMS:        newOptional(float64(r.Last), r.Tokens >= 1),
			Worker:        newOptional(int(r.Worker), r.Worker != collector.Nowhere),
			PrefillWorker: newOptional(int(r.PrefillWorker), r.PrefillWorker != collector.Nowhere),
			Session:       int(r.Session), Turn: int(r.Turn), ArrivalOrder: int(id),
		})
	}
	return requests
}

// newOptional returns a pointer to v if ok is true, and otherwise nil.
func newOptional[T any](v T, ok bool) *T {
	if !ok {
		return nil
	}
	return &v
}

// CompareRequests returns the fields that differ, in the order of ref. CompareRequests compares requests with the
// same session and turn.
func CompareRequests(ref, ours []Request) []Diff {
	type turn struct{ session, turn int }
	have := make(map[turn]*Request, len(ours))
	var diffs []Diff
	for i := range ours {
		at := turn{ours[i].Session, ours[i].Turn}
		if have[at] != nil {
			diffs = append(diffs, Diff{formatPlace(&ours[i]), "once", "twice"})
		}
		have[at] = &ours[i]
	}
	for i := range ref {
		at := turn{ref[i].Session, ref[i].Turn}
		if have[at] == nil {
			diffs = append(diffs, Diff{formatPlace(&ref[i]), "a request", "missing"})
			continue
		}
		diffs = compareRequest(diffs, &ref[i], have[at])
		delete(have, at)
	}
	for i := range ours {
		if have[turn{ours[i].Session, ours[i].Turn}] == &ours[i] {
			diffs = append(diffs, Diff{formatPlace(&ours[i]), "missing", "a request"})
		}
	}
	return diffs
}

func formatPlace(r *Request) string { return fmt.Sprintf("session %d turn %d", r.Session, r.Turn) }

func compareRequest(diffs []Diff, ref, ours *Request) []Diff {
	a, b := reflect.ValueOf(ref).Elem(), reflect.ValueOf(ours).Elem()
	for i := range a.NumField() {
		x, y := valueOf(a.Field(i)), valueOf(b.Field(i))
		if x != y {
			key := a.Type().Field(i).Tag.Get("json")
			diffs = append(diffs, Diff{formatPlace(ref) + ": " + key, formatValue(x), formatValue(y)})
		}
	}
	return diffs
}

// valueOf returns the value of v, the value that a pointer v points to, or "null".
func valueOf(v reflect.Value) any {
	if v.Kind() != reflect.Pointer {
		return v.Interface()
	}
	if v.IsNil() {
		return "null"
	}
	return v.Elem().Interface()
}

// ReadRequests reads a file with one JSON request per line. A file with a name that ends in .gz is decompressed with
// gzip.
func ReadRequests(path string) ([]Request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in io.Reader = bufio.NewReader(f)
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()
	var requests []Request
	for {
		var r Request
		err := dec.Decode(&r)
		if errors.Is(err, io.EOF) {
			return requests, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: request %d: %w", path, len(requests), err)
		}
		requests = append(requests, r)
	}
}
