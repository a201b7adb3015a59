package sglang

import (
	"math"

	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
)

// diskBatch is the number of pages that SGLang reads or writes in one batch.
const diskBatch = 128

// disk reads from or writes to storage. Jobs run one after the other, in batches.
type disk struct {
	jobs []*job
	free sim.Time // end of the latest batch
	duty
}

// duty is the kind of work of a disk: reading or writing.
type duty interface {
	// timeOf returns the time for a number of pages, in ns.
	timeOf(pages int32) float64
	// endBatch is called when a batch of a job has ended, and endJob when the job has ended.
	endBatch(j *job)
	endJob(j *job)
}

// job is a range of pages to read or write.
type job struct {
	seq      *radix.Sequence
	from, to int32
	fetch    *fetch // the fetch that reads the pages; nil: the pages are written
	node     int32  // the node of the written pages
	put      sim.Time
	done     int32 // number of finished pages
	batch    int32 // pages in progress until end; 0: none
	end      sim.Time
}

func (d *disk) add(j *job) { d.jobs = append(d.jobs, j) }

// advance runs all batches that begin by now. A stopped job starts no further batch.
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

// nextEnd returns the end of the batch in progress.
func (d *disk) nextEnd(now sim.Time) sim.Time {
	if len(d.jobs) > 0 && d.jobs[0].batch > 0 && d.jobs[0].end > now {
		return d.jobs[0].end
	}
	return sim.Time(math.Inf(1))
}
