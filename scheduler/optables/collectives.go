package optables

// AllReduce returns the time of an all-reduce of 2-byte values over GPUs, with the kernels of an engine.
func (t *Tables) AllReduce(e Engine, gpus int, elements float64) Time {
	if gpus < 2 || elements <= 0 {
		return Time{}
	}
	table := t.table(allReduceTable)
	group := exchange{op: "all_reduce", gpus: gpus, elements: elements}
	for i := range engineNames() {
		// Try the engine's own table first, then the tables of the other engines in order.
		other := Engine((int(e) + i) % len(engineNames()))
		if word, ok := table.word(other.String()); ok {
			found := t.exchange(allReduceTable, table.prefix(&key{word}, 1), group)
			if i > 0 {
				found.Source = max(found.Source, Interpolated)
			}
			return found
		}
	}
	return t.Collective("all_reduce", gpus, elements)
}

// Collective returns the time of an NCCL collective of 2-byte values over GPUs: all_reduce, all_gather,
// reduce_scatter or alltoall.
func (t *Tables) Collective(op string, gpus int, elements float64) Time {
	if gpus < 2 || elements <= 0 {
		return Time{}
	}
	table := t.table(collectiveTable)
	group := exchange{op: op, gpus: gpus, elements: elements}
	word, ok := table.word(op)
	if !ok {
		return Time{group.bound(t.Sheet()), Filled}
	}
	return t.exchange(collectiveTable, table.prefix(&key{word}, 1), group)
}

// exchange describes a collective.
type exchange struct {
	op       string
	gpus     int
	elements float64
}

// bound returns the time of a ring by the data sheet, plus a latency per collective, in ms.
func (x *exchange) bound(s *Sheet) float64 {
	rounds := 1.0
	if x.op == "all_reduce" {
		rounds = 2
	}
	return (s.P2P + rounds*ringShare(x.gpus)*2*x.elements/s.bandwidthOver(x.gpus)) * 1e3
}

// ringShare returns the share of all values that a GPU of a ring sends.
func ringShare(gpus int) float64 { return float64(gpus-1) / float64(gpus) }

// exchange looks up a collective among the curves of a span, which has one curve for each number of GPUs. An
// unmeasured number of GPUs uses the curve of the next smaller number, or of the smallest. The time is then scaled by
// the share of values that a GPU sends and by its bandwidth.
func (t *Tables) exchange(place int, span [2]int, x exchange) Time {
	table := t.table(place)
	if span[1] == span[0] {
		return Time{x.bound(t.Sheet()), Filled}
	}
	at := max(table.lower(span, 1, int32(x.gpus)+1)-1, span[0])
	c := t.curve(table, at)
	found := Time{c.proportional(x.elements), Measured}
	measured := int(table.keys[at][1])
	if measured != x.gpus {
		s := t.sheet()
		found.Ms *= ringShare(x.gpus) / ringShare(measured) * s.bandwidthOver(measured) / s.bandwidthOver(x.gpus)
		found.Source = Interpolated
	}
	return t.fill(found, x.bound(t.sheet()), x.bound(t.Sheet()))
}

// proportional returns the latency for a size. Outside of the curve, the latency is proportional to the size.
func (c *curve) proportional(x float64) float64 {
	n := len(c.axis) - 1
	switch lo, hi := float64(c.axis[0]), float64(c.axis[n]); {
	case x <= lo:
		return c.ms(0) * x / lo
	case x >= hi:
		return c.ms(n) * x / hi
	}
	i := lowerBound(c.axis, int(x))
	if float64(c.axis[i]) < x { // x is not an integer
		i++
	}
	x0, x1 := float64(c.axis[i-1]), float64(c.axis[i])
	return blendLinear(c.ms(i-1), c.ms(i), (x-x0)/(x1-x0))
}
