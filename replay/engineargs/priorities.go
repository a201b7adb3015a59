package engineargs

// readPriorities reads what the priorities of requests decide on an SGLang engine, and how
// passes of tokens and of prompts take turns.
func (r *reader) readPriorities(s *SGLangArgs) {
	p := &s.Priorities
	spare := false
	r.flag("enable_priority_scheduling", &p.On)
	r.flag("schedule_low_priority_values_first", &p.LowFirst)
	given := r.size("priority_scheduling_preemption_threshold", &p.Threshold)
	r.flag("disable_priority_preemption", &spare)
	if p.On && !given {
		p.Threshold = 10
	}
	p.Preempt = p.On && !spare
	r.size("prefill_decode_interval", &s.DecodeInterval)
	r.size("prefill_decode_interval_min_bs", &s.IntervalSeats)
	p.Retract = r.choice("retraction_policy", "length", "priority") == "priority"
	switch {
	case p.On && (s.Policy == "lpm" || s.Policy == "hrrn" || s.Policy == "shortest-prefill-first" || s.Policy == "random"):
		r.fail("enable_priority_scheduling", "true", "schedule_policy fcfs or lof with it")
	case p.Retract && !p.On:
		r.fail("retraction_policy", `"priority"`, "enable_priority_scheduling with it")
	}
}
