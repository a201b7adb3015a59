package cluster

import (
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
)

// listed is the maximum number of errors in the list of a report.
const listed = 100

// List adds the failed requests to the report as key errors of online: their number, the number of each type, and the
// first errors in the order of the trace.
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

// countKey increments the field with the key.
func countKey(fields []collector.Field, key string) []collector.Field {
	for i := range fields {
		if fields[i].Key == key {
			fields[i] = collector.Of(key, fields[i].Value().(int)+1)
			return fields
		}
	}
	return append(fields, collector.Of(key, 1))
}
