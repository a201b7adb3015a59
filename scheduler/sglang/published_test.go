package sglang

import (
	"reflect"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
	"github.com/replay-llm/replay/sim/prompt"
)

// published is what a core publishes about its cache at an instant. A page is named by the first request with a
// sequence that begins with it, and by its index there.
type published struct {
	At     sim.Time `json:"at"`
	Events []event  `json:"events"`
}

type event struct {
	Parent  *page     `json:"parent"`
	Stored  []pageRun `json:"stored"`
	Removed []pageRun `json:"removed"`
}

// page is a request and the index of a page in its sequence.
type page [2]int

// pageRun is a request, the index of a page in its sequence, and the index after the last page of the run.
type pageRun [3]int

// pageNames maps hashes to names of pages.
type pageNames map[uint64]page

// namePages names all pages that the requests can have.
func namePages(tree *prompt.Tree, requests []*sim.Request) pageNames {
	names, e, t := pageNames{}, newPageEvents(tree), radix.New(tree.PerNode())
	for n, r := range requests {
		s, last := radix.NewSequence(r), uint64(0)
		for i := range (r.InputTokens + r.OutputTokens) / tree.BlockTokens() {
			local := e.localHash(t, &s, int32(i))
			if last = blockhash.Chain(last, local); i == 0 {
				last = local
			}
			if _, known := names[last]; !known {
				names[last] = page{n, i}
			}
		}
	}
	return names
}

// runs returns the pages of hashes as runs of consecutive pages.
func (names pageNames) runs(hashes []uint64) (all []pageRun) {
	for _, h := range hashes {
		x, known := names[h]
		if !known {
			x = page{-1, -1}
		}
		if n := len(all) - 1; n >= 0 && all[n][0] == x[0] && all[n][2] == x[1] {
			all[n][2]++
		} else {
			all = append(all, pageRun{x[0], x[1], x[1] + 1})
		}
	}
	return all
}

// batch returns what a pass publishes.
func (names pageNames) batch(p *scheduler.Pass) published {
	b := published{At: p.End}
	for _, e := range p.Events {
		var stored []uint64
		for _, x := range e.Stored {
			stored = append(stored, x.Seq)
		}
		told := event{Stored: names.runs(stored), Removed: names.runs(e.Removed)}
		if e.HasParent {
			parent := names[e.Parent]
			told.Parent = &parent
		}
		b.Events = append(b.Events, told)
	}
	return b
}

// The published cache equals SGLang's: the same events at the same instants, with the same pages and parents. A
// router that reads residency instead of events knows of the same pages of prompts.
func (c *oracleCase) comparePublished(t *testing.T, runs bool) {
	t.Helper()
	cfg := c.config()
	cfg.Capture = scheduler.CaptureEvents
	var passes []scheduler.Pass
	requests := c.drive(t, &cfg, runs, func(p *scheduler.Pass) {
		if len(p.Events) > 0 {
			passes = append(passes, scheduler.Pass{End: p.End, Events: slices.Clone(p.Events)})
		}
	})
	names := namePages(cfg.Tree, requests)
	for i := range max(len(passes), len(c.Published)) {
		var here, there published
		if i < len(passes) {
			here = names.batch(&passes[i])
		}
		if i < len(c.Published) {
			there = c.Published[i]
		}
		if !reflect.DeepEqual(here, there) {
			t.Fatalf("in runs %v, batch %d is published as\n%+v, and in SGLang as\n%+v", runs, i, here, there)
		}
	}
	c.compareResidency(t, runs, passes)
}

// compareResidency compares the pages of prompts that a router learns from residency with the pages that it learns
// from events, at each published event.
func (c *oracleCase) compareResidency(t *testing.T, runs bool, published []scheduler.Pass) {
	t.Helper()
	cfg := c.config()
	cfg.Capture = scheduler.CaptureResidency
	var told []scheduler.Pass
	requests := c.drive(t, &cfg, runs, func(p *scheduler.Pass) {
		if len(p.KV) > 0 {
			told = append(told, scheduler.Pass{End: p.End, KV: slices.Clone(p.KV)})
		}
	})
	prompts := namePages(cfg.Tree, requests)
	for h, x := range prompts {
		if r := requests[x[0]]; x[1] >= int(r.Prompt.Blocks) {
			delete(prompts, h)
		}
	}
	stored, resident := map[uint64]bool{}, map[prompt.NodeID]int32{}
	for i := range published {
		for _, e := range published[i].Events {
			for _, b := range e.Stored {
				stored[b.Seq] = true
			}
			for _, h := range e.Removed {
				delete(stored, h)
			}
		}
		for ; len(told) > 0 && told[0].End <= published[i].End; told = told[1:] {
			for _, k := range told[0].KV {
				resident[k.Node] = k.Blocks
			}
		}
		if i%8 > 0 && i < len(published)-1 {
			continue // skipped because it takes long
		}
		per := cfg.Tree.PerNode()
		for h, x := range prompts {
			node := requests[x[0]].Prompt.Nodes[x[1]/per]
			if known := int(resident[node]) > x[1]%per; known != stored[h] {
				t.Fatalf("at %v page %d of request %d is cached %v by residency, %v by events", published[i].End, x[1], x[0], known, stored[h])
			}
		}
	}
}
