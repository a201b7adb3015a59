package diff

import "github.com/replay-llm/replay/replay/collector"

// Numbers are the entries of a report that are numbers, or truths, as 0 and 1.
func Numbers(fields []collector.Field) map[string]float64 {
	all := make(map[string]float64, len(fields))
	for _, f := range fields {
		switch v := f.Value.(type) {
		case int:
			all[f.Key] = float64(v)
		case float64:
			all[f.Key] = v
		case bool:
			all[f.Key] = 0
			if v {
				all[f.Key] = 1
			}
		}
	}
	return all
}
