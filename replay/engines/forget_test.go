package engines

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// side is an engine with its tree of prompts.
type side struct {
	tree *prompt.Tree
	core scheduler.Core
	pass scheduler.Pass
	live map[sim.RequestID]prompt.NodeID // by request on the engine: end of its prompt
	over []sim.RequestID                 // requests of live that left in the previous pass
}

func newSide(t *testing.T, tree *prompt.Tree, a engineargs.Args, capture string) *side {
	t.Helper()
	top := Topology{Pools: []Pool{{Role: a.Role, Engine: a, Count: 2}}}
	if capture == "residency" {
		top.Router = policy.KV
	}
	stages, err := NewStages(&top, Use{Tree: tree, Events: capture == "events"})
	if err != nil {
		t.Fatal(err)
	}
	core, err := stages[0].Core(0)
	if err != nil {
		t.Fatal(err)
	}
	return &side{tree: tree, core: core, live: map[sim.RequestID]prompt.NodeID{}}
}

// submit submits a request to the engine. submit reports whether the tree has dropped prompts before.
func (s *side) submit(id sim.RequestID, hashes []uint64, tokens, output int) (swept bool) {
	if swept = s.tree.WantsSweep() && s.core.Able()&scheduler.Remembers != 0; swept {
		s.tree.Sweep(func(need func(prompt.NodeID)) {
			for _, end := range s.live {
				need(end)
			}
			s.core.Nodes(need)
		})
	}
	q := &sim.Request{ID: id, InputTokens: tokens, OutputTokens: output, Prompt: s.tree.Add(hashes, tokens)}
	if n := len(q.Prompt.Nodes); n > 0 {
		s.live[id] = q.Prompt.Nodes[n-1]
	}
	s.core.Submit(q)
	return swept
}

// step runs a pass and then cancels a request, unless cancel is negative. step returns the effects of the pass and of
// the cancellation, without node numbers.
func (s *side) step(now sim.Time, cancel sim.RequestID) (string, error) {
	if err := s.core.Step(now, now, &s.pass); err != nil {
		return "", err
	}
	s.core.ReportIdle(&s.pass)
	p := &s.pass
	for _, id := range s.over {
		delete(s.live, id)
	}
	s.over = s.over[:0]
	for i := range p.Marks {
		if p.Marks[i].Last {
			s.over = append(s.over, p.Marks[i].Request)
		}
	}
	for i := range p.Aborted {
		s.over = append(s.over, p.Aborted[i].Request)
	}
	told := fmt.Sprint(p.End, p.Tokens, p.Admitted, p.Second, p.Marks, p.Events, p.Preempted, p.Aborted, p.PrefillTokens, p.ToHost, p.FromHost, s.core.Load())
	for i := range p.KV {
		told += fmt.Sprint(" ", p.KV[i].Blocks, s.tree.Start(p.KV[i].Node), s.tree.SequenceHash(p.KV[i].Node, 0))
	}
	if cancel >= 0 && s.core.Cancel(p.End, cancel, &s.pass) {
		s.core.ReportIdle(&s.pass)
		s.over = append(s.over, cancel)
		told += fmt.Sprint(" canceled ", s.pass.Events)
	}
	return told, nil
}

// TestForgetfulTreeChangesNothing checks that engines make the same passes and events with a tree that drops unused
// prompts.
func TestForgetfulTreeChangesNothing(t *testing.T) {
	const requests = 2500
	const small = `"block_size":16,"num_gpu_blocks":900,"max_num_seqs":16,"max_num_batched_tokens":512`
	for name, text := range map[string]string{
		"vllm 0.33":     `{"scheduler_profile":"vllm-0.33",` + small + `}`,
		"vllm 0.24":     `{"scheduler_profile":"vllm-0.24",` + small + `}`,
		"vllm windows":  `{"scheduler_profile":"vllm-0.33","sliding_window":256,` + small + `}`,
		"vllm no cache": `{"scheduler_profile":"vllm-0.33","enable_prefix_caching":false,` + small + `}`,
		"reference":     `{"scheduler_profile":"reference",` + small + `}`,
		"sglang":        `{"engine_type":"sglang","scheduler_profile":"sglang",` + small + `}`,
		"sglang plain":  `{"engine_type":"sglang","scheduler_profile":"sglang","sglang":{"disable_overlap_schedule":true},` + small + `}`,
		"sglang host":   `{"engine_type":"sglang","scheduler_profile":"sglang","kv_bytes_per_token":1000,"sglang":{"enable_hierarchical_cache":true,"hicache_ratio":2},` + small + `}`,
		"trtllm":        `{"engine_type":"trtllm","block_size":16,"num_gpu_blocks":900,"trtllm":{"max_batch_size":16,"max_num_tokens":4096}}`,
		"trtllm host":   `{"engine_type":"trtllm","block_size":16,"num_gpu_blocks":900,"trtllm":{"max_batch_size":16,"max_num_tokens":4096,"host_cache_size":8000000},"kv_bytes_per_token":1000}`,
	} {
		for _, capture := range []string{"nothing", "residency", "events"} {
			t.Run(fmt.Sprint(name, ", ", capture), func(t *testing.T) {
				a, err := engineargs.Parse([]byte(text), engineargs.Options{})
				if err != nil {
					t.Fatal(err)
				}
				hashed := prompt.Options{Hashed: true}
				sides := []*side{newSide(t, prompt.NewTree(16, 16, hashed), a, capture), newSide(t, prompt.NewForgetful(16, 16, hashed), a, capture)}
				r := sim.NewRand(5, name)
				var told [][]uint64
				sweeps, now := 0, sim.Time(0)
				for id := sim.RequestID(0); id < requests || sides[0].core.Load() > 0; {
					for n := r.IntN(max(1, 24-sides[0].core.Load())); n > 0 && id < requests; n-- {
						var hashes []uint64
						if len(told) > 0 && r.IntN(3) > 0 { // extends an earlier prompt, usually a recent one
							from := told[max(0, len(told)-1-r.IntN(1+r.IntN(60)))]
							hashes = append(hashes, from[:r.IntN(len(from))]...)
						}
						for n := 1 + r.IntN(40); n > 0 && len(hashes) < 200; n-- {
							hashes = append(hashes, r.Uint64()>>1)
						}
						told = append(told, hashes)
						tokens, output := 16*len(hashes)-r.IntN(16), 1+r.IntN(30)
						for i, s := range sides {
							if s.submit(id, hashes, tokens, output) && i == 1 {
								sweeps++
							}
						}
						id++
					}
					cancel := sim.RequestID(-1)
					if r.IntN(20) == 0 {
						cancel = max(0, id-sim.RequestID(r.IntN(20)))
					}
					if sides[0].core.Load() == 0 {
						continue
					}
					plain, err := sides[0].step(now, cancel)
					if err != nil {
						t.Fatal(err)
					}
					forgetful, err := sides[1].step(now, cancel)
					if err != nil {
						t.Fatal(err)
					}
					if plain != forgetful {
						t.Fatalf("after %d requests and %d sweeps:\n%s\n%s", id, sweeps, plain, forgetful)
					}
					now = max(now, sides[0].pass.End)
				}
				if sweeps < 2 || sides[1].tree.Len() > sides[0].tree.Len()/3 {
					t.Errorf("%d sweeps left room for %d nodes of %d", sweeps, sides[1].tree.Len(), sides[0].tree.Len())
				}
			})
		}
	}
}
