package inspect

// leastReuse is the minimum share of reused prompt tokens at which Suits recommends the router kv.
const leastReuse = 0.05

// Suits returns commands that are useful for the trace, most useful first. FILE is the placeholder for the file name.
func (s *Summary) Suits() []string {
	file := "FILE"
	if s.Estimated {
		file += " --tokens-per-byte 0.25"
	}
	if s.Untimed || s.Arrivals.N == 0 {
		all := []string{"replay concurrency " + file + " --max-in-flight 8"}
		if s.Untimed {
			all = append(all, "replay trace "+file+" --arrival-rate 1")
		}
		return all
	}
	var all []string
	if s.Measured {
		all = append(all, "replay concurrency "+file+" --max-in-flight 8")
	}
	switch {
	case s.Private:
		all = append(all, "replay trace "+file+" --assume-prefix groups:10:0.5")
	case s.Reuse() >= leastReuse:
		all = append(all, "replay trace "+file+" --workers 4 --router kv")
	default:
		all = append(all, "replay trace "+file+" --workers 4 --router least-loaded")
	}
	return append(all, "replay plan "+file+" --slo p99:ttft=2s")
}
