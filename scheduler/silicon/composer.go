// Package silicon computes the time of a forward pass from measured operator times. A Composer lists the operators of
// a pass of a model on its GPUs, with their shapes and counts. Passes are tables of sums of these operators, from
// which a pass is timed with a few additions.
//
// Read composer.go, linear.go, experts.go, attention.go, then ladder.go, passes.go and corrections.go.
package silicon

import (
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/optables"
)

// Part is an operator of a pass.
type Part struct {
	Name  string
	Calls float64 // calls per pass
	Time  optables.Time
	Sheet bool // the operator only moves bytes or sends to the next stage, and its time is from the data sheet
}

// Source returns the source of its time as text.
func (p *Part) Source() string {
	if p.Sheet {
		return "data sheet"
	}
	return p.Time.Source.String()
}

// Ms returns the total time of all calls in a pass, in ms.
func (p *Part) Ms() float64 { return float64(p.Calls * p.Time.Ms) }

// Sum returns the total time of parts, in ms.
func Sum(parts []Part) float64 {
	total := 0.0
	for i := range parts {
		total += parts[i].Ms()
	}
	return total
}

// Composer lists the operators of passes of a model on the GPUs of one data-parallel rank of attention.
type Composer struct {
	granular bool // use latent attention as separate operators, and only operators that the tables have, like aiconfigurator-core

	fit    hardware.Fit
	engine optables.Engine
	tables *optables.Tables
	sheet  *optables.Sheet

	attention, dense, kv string   // names of types in the tables
	expertTypes          []string // the first is the engine's own
	tp, ranks            int      // GPUs per rank, and number of ranks
	expertTP, expertEP   int
	layers, expertLayers float64
	full                 float64 // layers with keys and values
	query, keys          int     // values per token on a GPU: queries of all heads, keys of all heads
}

// NewComposer returns the composer for a fit and an engine.
func NewComposer(f *hardware.Fit, e optables.Engine, t *optables.Tables) *Composer {
	m, p := &f.Model, f.Precision()
	c := &Composer{fit: *f, engine: e, tables: t, sheet: t.Sheet(), tp: f.TP, ranks: f.DP, expertTP: f.TP * f.DP, expertEP: 1}
	c.attention, c.dense, c.expertTypes, c.kv = productType(p.Attention), productType(p.Dense), c.typesOf(p.Experts), "bfloat16"
	if f.KVBits == 8 {
		c.kv = "fp8"
	}
	if f.EP > 1 {
		c.expertTP, c.expertEP = 1, f.TP*f.DP
	}
	c.layers, c.full, c.expertLayers = float64(m.Layers), float64(m.KVLayers()), float64(m.ExpertLayers())
	c.query, c.keys = m.Heads*m.HeadSize/f.TP, c.kvHeads()*m.HeadSize
	return c
}

// kvHeads returns the number of key heads on a GPU.
func (c *Composer) kvHeads() int { return (c.fit.Model.KVHeads + c.tp - 1) / c.tp }

// productType returns the name in the tables for products with weights of type t.
func productType(t hardware.Type) string {
	switch t {
	case hardware.INT8:
		return "int8_wo"
	case hardware.INT4:
		return "int4_wo"
	case hardware.MXFP4:
		return string(hardware.BF16) // MXFP4 exists only for experts
	}
	return string(t)
}

// typesOf returns the names in the tables for experts of type t. On GPUs with FP4 products, MXFP4 weights are
// multiplied with 8-bit activations.
func (c *Composer) typesOf(t hardware.Type) []string {
	switch {
	case t != hardware.MXFP4:
		return []string{productType(t)}
	case c.sheet.FP4 > 0:
		return []string{"w4a8_mxfp4_mxfp8", "w4a16_mxfp4"}
	}
	return []string{"w4a16_mxfp4"}
}

// parts is a growing list of operators.
type parts []Part

func (p *parts) add(name string, calls float64, t optables.Time) {
	if calls > 0 && t.Ms != 0 {
		*p = append(*p, Part{Name: name, Calls: calls, Time: t})
	}
}

// small adds an operator that only moves bytes.
func (c *Composer) small(p *parts, name string, calls, bytes float64) {
	*p = append(*p, Part{name, calls, optables.Time{Ms: c.sheet.Small(bytes)}, true})
}

// product is a product with weights of n outputs and k inputs.
type product struct {
	name  string
	calls float64
	dtype string
	n, k  int
}

// gemm adds a product of x tokens. Block-scaled types also need a kernel that scales the inputs block by block; the
// tables do not include this kernel.
func (c *Composer) gemm(p *parts, x int, w product) {
	p.add(w.name, w.calls, c.tables.GEMM(w.dtype, x, w.n, w.k))
	if scalesBlocks(w.dtype) && w.calls > 0 {
		c.extra(p, "scales of blocks", w.calls, 3*float64(x)*float64(w.k))
	}
}

// scalesBlocks reports whether products of a type scale their inputs block by block.
func scalesBlocks(dtype string) bool {
	return dtype == string(hardware.FP8Block) || dtype == string(hardware.NVFP4)
}

// extra adds a small operator that aiconfigurator-core leaves out.
func (c *Composer) extra(p *parts, name string, calls, bytes float64) {
	if !c.granular {
		c.small(p, name, calls, bytes)
	}
}

// reduce adds all-reduces of the hidden states of x tokens.
func (c *Composer) reduce(p *parts, name string, calls float64, x int) {
	if c.tp > 1 {
		p.add(name, calls, c.tables.AllReduce(c.engine, c.tp, float64(x*c.fit.Model.Hidden)))
	}
}

// Tables returns the tables of measured operators.
func (c *Composer) Tables() *optables.Tables { return c.tables }
