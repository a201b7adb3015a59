package sglang

import (
	"math"

	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
)

// diskBatch is the number of pages that SGLang reads or writes at a time.
const diskBatch = 128

// disk reads from storage or writes to it, one job after the other and batch by batch.
type disk struct {
	jobs []*job
	free sim.Time // the end of the latest batch
	duty
}

// duty is the kind of work of a disk: to read, or to write.
type duty interface {
	// timeOf returns the time of n pages, in ns.
	timeOf(pages int32) float64
	// endBatch notes that a batch of a job has ended, and endJob that the job has.
	endBatch(j *job)
	endJob(j *job)
}

// job is pages that are read or written.
type job struct {
	seq      *radix.Sequence
	from, to int32
	fetch    *fetch // what reads them; nil: they are written
	node     int32  // the node with the written pages
	put      sim.Time
	done     int32 // pages
	batch    int32 // pages in progress, which end at end; 0: none
	end      sim.Time
}

func (d *disk) add(j *job) { d.jobs = append(d.jobs, j) }

// advance runs what begins by now. A job that is stopped begins no other batch.
func (d *disk) advance(now sim.Time) {
	for len(d.jobs) > 0 {
		j := d.jobs[0]
		if j.batch > 0 {
			if j.end > now {
				return
			}
			d.free = j.end
			j.done += j.batch
			j.batch = 0
			d.endBatch(j)
		} else {
			begin := max(j.put, d.free)
			if begin > now {
				return
			}
			d.free = begin
		}
		if j.done == j.to-j.from || j.fetch != nil && j.fetch.stopped {
			d.jobs = d.jobs[1:]
			d.endJob(j)
			continue
		}
		j.batch = min(diskBatch, j.to-j.from-j.done)
		j.end = d.free + sim.Time(d.timeOf(j.batch)/1e6)
	}
}

// nextEnd returns when the batch in progress ends.
func (d *disk) nextEnd(now sim.Time) sim.Time {
	if len(d.jobs) > 0 && d.jobs[0].batch > 0 && d.jobs[0].end > now {
		return d.jobs[0].end
	}
	return sim.Time(math.Inf(1))
}
