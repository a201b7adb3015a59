package cluster

import (
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
)

// listed is how many errors a report lists one by one.
const listed = 100

// List puts the requests that did not complete into the report, as errors of the
// key online: their number, how many there are of each type, and what the first
// ones were, by place in the trace.
func List(r *harness.Result) {
	for i := range r.Report.Extra {
		if f := &r.Report.Extra[i]; f.Key == "online" {
			fields, _ := f.Value.([]collector.Field)
			fields = slices.DeleteFunc(fields, func(f collector.Field) bool { return f.Key == "errors" })
			f.Value = append(fields, collector.Field{Key: "errors", Value: errorFields(r.Failed)})
		}
	}
}

func errorFields(failed []harness.Failure) []collector.Field {
	var types, requests []collector.Field
	for i := range failed {
		f := &failed[i]
		types = countKey(types, string(typeOf(f.Err)))
		if i < listed {
			requests = append(requests, collector.Field{Key: f.Place, Value: f.Err.Error()})
		}
	}
	return []collector.Field{
		{Key: "count", Value: len(failed)}, {Key: "types", Value: types}, {Key: "requests", Value: requests},
	}
}

// countKey adds one to the field with the key.
func countKey(fields []collector.Field, key string) []collector.Field {
	for i := range fields {
		if fields[i].Key == key {
			fields[i].Value = fields[i].Value.(int) + 1
			return fields
		}
	}
	return append(fields, collector.Field{Key: key, Value: 1})
}
