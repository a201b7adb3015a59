package main

import (
	"fmt"
	"strings"
	"time"
)

// judged are the figures of a row and what they miss.
type judged struct {
	simulation, command ratio
	commandTime         time.Duration // of ours
	ours, theirs        float64       // peak memory, MiB
	atLeast             bool          // theirs may be more
	missed              []string
	open                []string // figures that might be reached with more patience
	unfinished          []string // releases of the reference, and why
}

func judgeRow(m *measured) judged {
	j := judged{
		simulation:  m.compareWith(m.simulation, simulationOf),
		command:     m.compareWith(m.command, commandOf),
		commandTime: time.Duration(m.ourMedian(commandOf)),
	}
	j.ours, j.theirs, j.atLeast = m.peaks()
	bounds := &m.row.Bounds
	j.holdLeast("simulation", j.simulation, bounds.Simulation)
	j.holdLeast("command", j.command, bounds.Command)
	if bounds.CommandTime > 0 && j.commandTime >= bounds.CommandTime {
		j.missed = append(j.missed, fmt.Sprintf("time %s", formatTime(j.commandTime)))
	}
	memory := ratio{median: j.theirs / j.ours, atLeast: j.atLeast}
	j.holdLeast("memory", memory, 1/bounds.Memory)
	j.checkSameWork(m)
	for i := range m.first {
		if why := m.first[i].unfinished; why != "" {
			j.unfinished = append(j.unfinished, fmt.Sprintf("%s did not finish: %s", m.peers[i].name, why))
		}
	}
	return j
}

func simulationOf(o *outcome) float64 { return float64(o.simulation) }
func commandOf(o *outcome) float64    { return float64(o.command) }

// holdLeast holds a ratio against its bound. One that is known to be larger than
// something below its bound is neither reached nor missed.
func (j *judged) holdLeast(name string, r ratio, bound float64) {
	switch {
	case bound == 0 || r.median >= bound:
	case r.atLeast:
		j.open = append(j.open, name)
	default:
		j.missed = append(j.missed, name)
	}
}

// checkSameWork complains when a run that was compared completed other requests.
func (j *judged) checkSameWork(m *measured) {
	for i, pairs := range m.pairs {
		for _, p := range pairs {
			if p.theirs.unfinished == "" && p.ours.completed != p.theirs.completed {
				j.missed = append(j.missed, fmt.Sprintf("the same work: %d requests, %s has %d",
					p.ours.completed, m.peers[i].name, p.theirs.completed))
				return
			}
		}
	}
}

func (j *judged) String() string {
	var parts []string
	if len(j.missed) > 0 {
		parts = append(parts, "MISSED: "+strings.Join(j.missed, ", "))
	}
	if len(j.open) > 0 {
		parts = append(parts, "open: "+strings.Join(j.open, ", "))
	}
	if len(parts) == 0 {
		parts = append(parts, "ok")
	}
	return strings.Join(append(parts, j.unfinished...), "; ")
}
