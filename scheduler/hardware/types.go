package hardware

import (
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Type is the type of weights, by its name in checkpoints; "" means the type of the checkpoint.
type Type string

// Types of weights.
const (
	BF16     Type = "bfloat16"
	FP8      Type = "fp8"       // a scale for each tensor, channel or token
	FP8Block Type = "fp8_block" // a scale for each block of 128 by 128
	INT8     Type = "int8"      // weights only
	INT4     Type = "int4"      // weights only: AWQ, GPTQ
	NVFP4    Type = "nvfp4"
	MXFP4    Type = "mxfp4" // experts only
)

// Dtypes returns the names of the types of weights; fp4 is an alias of nvfp4.
func Dtypes() []string {
	return []string{"auto", string(BF16), string(FP8), string(FP8Block), string(INT8), string(INT4), string(NVFP4), string(MXFP4), "fp4"}
}

// parseType returns the type for a name; some types have old names.
func parseType(name string) (Type, error) {
	switch name {
	case "auto":
		return "", nil
	case "float16":
		return BF16, nil
	case "fp8_e4m3", "fp8_e5m2":
		return FP8, nil
	case "fp4":
		return NVFP4, nil
	}
	if !slices.Contains(Dtypes(), name) {
		return "", excerpt.Errorf("%q, must be one of %s", name, strings.Join(Dtypes(), ", "))
	}
	return Type(name), nil
}

// bits returns the bits per value of the type, including its share of the scales, or 0 for "".
func (t Type) bits() float64 {
	switch t {
	case "":
		return 0
	case FP8, FP8Block, INT8:
		return 8
	case INT4, MXFP4:
		return 4.25
	case NVFP4:
		return 4.5
	}
	return 16
}

// narrow reports whether activations also have this type in products.
func (t Type) narrow() bool { return t == FP8 || t == FP8Block || t == INT8 || t == NVFP4 }

// DtypeBits returns the bits per value of the named type, including its share of the scales. DtypeBits returns 0 for
// auto, the type of the checkpoint.
func DtypeBits(name string) (float64, error) {
	t, err := parseType(name)
	return t.bits(), err
}

// Precision is the types in which the products of a model are computed.
type Precision struct {
	Attention, Dense, Experts Type // Dense is for dense layers and shared experts
}

// Precision returns the types of the products of f.
//
// Types that exist only for experts leave all other products in the type of the checkpoint. NVFP4 checkpoints with
// latent attention and of MiniMax have attention in bfloat16. NVFP4 checkpoints with linear layers also have shared
// experts in bfloat16. FP8 checkpoints with latent attention have block scales.
func (f *Fit) Precision() Precision {
	m := &f.Model
	all := typeOf(m.Bits, m.ActivationBits, m.Blocks)
	p := Precision{Attention: all, Dense: all, Experts: typeOf(m.ExpertBits, m.ActivationBits, m.Blocks)}
	if p.Experts == INT4 && m.Family == "gpt_oss" {
		p.Experts = MXFP4
	}
	switch t := f.Weights; {
	case t == "":
	case t == MXFP4 || t == INT4 && m.MoE != nil:
		p.Experts = t
		if all.narrow() {
			p.Attention, p.Dense = BF16, BF16
		}
	case t == NVFP4 && (m.Latent != nil || m.Family == "minimax_m2"):
		p = Precision{Attention: BF16, Dense: t, Experts: t}
	case t == NVFP4 && m.Linear != nil && m.MoE != nil:
		p = Precision{Attention: BF16, Dense: BF16, Experts: t}
	case t == FP8 && m.Latent != nil:
		p = Precision{FP8Block, FP8Block, FP8Block}
	default:
		p = Precision{t, t, t}
	}
	return p
}

// typeOf returns the type for the bits of weights and activations; 0 means 16 bits.
func typeOf(weights, activations float64, blocks bool) Type {
	weights, activations = fillBits(weights), fillBits(activations)
	switch {
	case weights > 9:
		return BF16
	case weights > 5 && activations > 9:
		return INT8
	case weights > 5 && blocks:
		return FP8Block
	case weights > 5:
		return FP8
	case activations < 9:
		return NVFP4
	}
	return INT4
}

// weightBits returns the bits of the weights of attention, of other dense layers and of experts.
func (f *Fit) weightBits() (attention, dense, experts float64) {
	m := &f.Model
	if f.Weights == "" {
		return fillBits(m.Bits), fillBits(m.Bits), fillBits(m.ExpertBits)
	}
	p := f.Precision()
	return p.Attention.bits(), p.Dense.bits(), p.Experts.bits()
}
