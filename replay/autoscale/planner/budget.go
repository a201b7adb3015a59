package planner

// budget limits the GPUs of all workers. A negative limit means no limit.
type budget struct{ min, max int }

// slack returns the number of GPUs that may be missing at the lower limit. The result is the GPUs of one worker if
// there is an upper limit, otherwise 0.
func (b budget) slack(gpus ...int) int {
	most := 0
	if b.min >= 0 && b.max >= 0 {
		for _, n := range gpus {
			most = max(most, n)
		}
	}
	return most
}

// has reports whether a number of GPUs is within the bounds.
func (b budget) has(gpus, slack int) bool {
	return (b.max < 0 || gpus <= b.max) && (b.min < 0 || gpus >= b.min-slack)
}

// clamp returns the number of workers nearest to n within the limits, 0 if the minimum does not fit.
func (b budget) clamp(n, gpus, least int) int {
	switch total := n * gpus; {
	case b.has(total, b.slack(gpus)):
		return n
	case b.max >= 0 && total > b.max && b.max < least*gpus:
		return 0
	case b.max >= 0 && total > b.max:
		return max(least, b.max/gpus)
	}
	return max(least, divideUp(b.min, gpus))
}

// guard limits a change from now to want workers: it returns a number between them. held reports whether a bound
// forbids the change.
func (b budget) guard(now, want, gpus, least int) (n int, held bool) {
	switch total := now * gpus; {
	case !b.has(total, b.slack(gpus)):
		return b.clamp(now, gpus, least), true
	case b.min >= 0 && total <= b.min && want < now, b.max >= 0 && total >= b.max && want > now:
		return now, true
	}
	n = b.clamp(want, gpus, least)
	if n < min(now, want) || n > max(now, want) {
		return now, true
	}
	return n, false
}

func divideUp(a, b int) int {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
