package prompt

import (
	"math/rand/v2"
	"testing"
)

// A tree that forgets gives equal prefixes equal nodes, and different prefixes different nodes, until their last use.
func TestForgetfulIsMap(t *testing.T) {
	type key struct {
		parent NodeID
		id     uint64
	}
	rng := rand.New(rand.NewPCG(3, 5))
	tree := NewForgetful(64, 16, Options{})
	nodes := make(map[key]NodeID) // nodes of the prompts that are needed
	var needed [][]NodeID
	sweeps := 0
	for step := range 20000 {
		ids := make([]uint64, 1+rng.IntN(6))
		for i := range ids {
			ids[i] = uint64(rng.IntN(1 + step>>uint(3*i)))
		}
		p := tree.Add(ids, 64*len(ids))
		at := None
		for i, n := range p.Nodes {
			if known, ok := nodes[key{at, ids[i]}]; ok && known != n {
				t.Fatalf("step %d: block %d is node %d, want %d as before", step, i, n, known)
			}
			if tree.Parent(n) != at || tree.Start(n) != int32(4*i) || tree.Size(n) != 4 {
				t.Fatalf("step %d: node %d is %d blocks from %d after node %d, want 4 from %d after %d", step, n, tree.Size(n), tree.Start(n), tree.Parent(n), 4*i, at)
			}
			nodes[key{at, ids[i]}] = n
			at = n
		}
		if needed = append(needed, p.Nodes); len(needed) > 500 {
			needed = needed[1:]
		}
		if !tree.WantsSweep() {
			continue
		}
		sweeps++
		tree.Sweep(func(need func(NodeID)) {
			for _, path := range needed {
				need(path[len(path)-1])
			}
		})
		left := make(map[NodeID]bool)
		for _, path := range needed {
			for _, n := range path {
				left[n] = true
			}
		}
		for k, n := range nodes {
			if !left[n] {
				delete(nodes, k)
			}
		}
		seen := make(map[NodeID]bool)
		for k, n := range nodes {
			if seen[n] {
				t.Fatalf("step %d: node %d is two blocks, one of them id %d after node %d", step, n, k.id, k.parent)
			}
			seen[n] = true
		}
	}
	if sweeps < 3 {
		t.Errorf("%d sweeps, want some", sweeps)
	}
}
