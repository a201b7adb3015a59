package cluster

import (
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
)

// listed is how many errors a report lists one by one.
const listed = 100

// List adds the requests that did not complete to the report, as errors of the key online: their number, the number of
// each type, and the first ones by place in the trace.
func List(r *harness.Result) {
	if fields, ok := r.Report.Get("online").Value().([]collector.Field); ok {
		fields = slices.DeleteFunc(fields, func(f collector.Field) bool { return f.Key == "errors" })
		r.Report.Add(collector.Of("online", append(fields, collector.Of("errors", errorFields(r.Failed)))))
	}
}

func errorFields(failed []harness.Failure) []collector.Field {
	var types, requests []collector.Field
	for i := range failed {
		f := &failed[i]
		types = countKey(types, string(typeOf(f.Err)))
		if i < listed {
			requests = append(requests, collector.Of(f.Place, f.Err.Error()))
		}
	}
	return []collector.Field{
		collector.Of("count", len(failed)), collector.Of("types", types), collector.Of("requests", requests),
	}
}

// countKey adds one to the field with the key.
func countKey(fields []collector.Field, key string) []collector.Field {
	for i := range fields {
		if fields[i].Key == key {
			fields[i] = collector.Of(key, fields[i].Value().(int)+1)
			return fields
		}
	}
	return append(fields, collector.Of(key, 1))
}
