// Package silicon composes the time of a forward pass from measured operator times: the operators of a pass of a model
// on its GPUs, with shapes and numbers (Composer), and tables of their sums from which a pass is timed in a few
// additions (Passes).
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
	Calls float64 // in a pass
	Time  optables.Time
	Sheet bool // it only moves bytes or hops between stages, and is timed by the data sheet
}

// Source returns where its time is from, in words.
func (p *Part) Source() string {
	if p.Sheet {
		return "data sheet"
	}
	return p.Time.Source.String()
}

// Ms returns what the part takes in a pass, in ms.
func (p *Part) Ms() float64 { return float64(p.Calls * p.Time.Ms) }

// Sum returns what parts take together, in ms.
func Sum(parts []Part) float64 {
	total := 0.0
	for i := range parts {
		total += parts[i].Ms()
	}
	return total
}

// Composer lists the operators of passes of a model on GPUs, one rank of attention's data parallelism of them.
type Composer struct {
	granular bool // as aiconfigurator-core: latent attention operator by operator, and no operator besides the tables' own

	fit    hardware.Fit
	engine optables.Engine
	tables *optables.Tables
	sheet  *optables.Sheet

	attention, dense, kv string   // types, as the tables name them
	expertTypes          []string // of which the first is the engine's
	tp, ranks            int      // GPUs of a rank, and ranks
	expertTP, expertEP   int
	layers, expertLayers float64
	full                 float64 // layers that keep keys and values
	query, keys          int     // values of a token on a GPU: queries of all heads, keys of all heads
}

// NewComposer returns the composer of a fit under an engine.
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

// kvHeads returns the heads of keys that a GPU has.
func (c *Composer) kvHeads() int { return (c.fit.Model.KVHeads + c.tp - 1) / c.tp }

// productType returns the name in the tables of products with weights of a type.
func productType(t hardware.Type) string {
	switch t {
	case hardware.INT8:
		return "int8_wo"
	case hardware.INT4:
		return "int4_wo"
	case hardware.MXFP4:
		return string(hardware.BF16) // it is a type of experts alone
	}
	return string(t)
}

// typesOf returns the names in the tables of experts of a type. MXFP4 is multiplied with activations of 8 bits where the
// GPU has products of 4.
func (c *Composer) typesOf(t hardware.Type) []string {
	switch {
	case t != hardware.MXFP4:
		return []string{productType(t)}
	case c.sheet.FP4 > 0:
		return []string{"w4a8_mxfp4_mxfp8", "w4a16_mxfp4"}
	}
	return []string{"w4a16_mxfp4"}
}

// parts is a list of operators that grows.
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

// gemm adds a product of x tokens. Products of blocks have their inputs scaled block by block, by a kernel before them that the
// tables do not have.
func (c *Composer) gemm(p *parts, x int, w product) {
	p.add(w.name, w.calls, c.tables.GEMM(w.dtype, x, w.n, w.k))
	if scalesBlocks(w.dtype) && w.calls > 0 {
		c.extra(p, "scales of blocks", w.calls, 3*float64(x)*float64(w.k))
	}
}

// scalesBlocks reports whether the inputs of a product of a type are scaled in blocks.
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

// Tables returns the measured operators of the passes.
func (c *Composer) Tables() *optables.Tables { return c.tables }
