package timing

import (
	"fmt"
	"strings"
	"sync"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/optables"
	"github.com/replay-llm/replay/scheduler/silicon"
)

// memo caches the results of loadMeasured, because a plan replays a fit hundreds of times. The tables are filled on
// demand, and their content depends only on the key.
var memo struct {
	sync.Mutex
	tables map[string]*optables.Tables
	models map[string]*Measured
}

// mostModels limits the size of memo.
const mostModels = 64

// loadMeasured returns the Measured model of a fit.
func loadMeasured(f *hardware.Fit) (*Measured, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	memo.Lock()
	defer memo.Unlock()
	if m := memo.models[string(text)]; m != nil {
		return m, nil
	}
	tables, err := loadTables(f)
	if err != nil {
		return nil, err
	}
	engine, release := SplitEngine(f.Engine)
	m := &Measured{Passes: silicon.NewPasses(silicon.NewComposer(f, engine, tables)), Corrections: silicon.CorrectionsOf(engine, release)}
	if !f.Eager() {
		m.Graphs.Graphs = DefaultGraphs(f.MaxSeqs)
	}
	if f.Graphs == "piecewise" {
		m.Corrections.Base += float64(float64(hardware.PieceTime*1e3) * float64(f.Model.Layers))
	}
	if len(memo.models) >= mostModels || memo.models == nil {
		memo.models = map[string]*Measured{}
	}
	memo.models[string(text)] = m
	return m, nil
}

// loadTables returns the measured operators of a fit's GPU. The caller has locked the memo.
func loadTables(f *hardware.Fit) (*optables.Tables, error) {
	key := f.Operators + " " + f.GPU.Name
	tables := memo.tables[key]
	if tables == nil {
		var err error
		if f.Operators != "" {
			tables, err = optables.Read(f.Operators, f.GPU.Name)
		} else {
			tables, err = optables.Load(f.GPU.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("measured operators of %s: %w", f.GPU.Name, err)
		}
		if memo.tables == nil {
			memo.tables = map[string]*optables.Tables{}
		}
		memo.tables[key] = tables
	}
	return tables, nil
}

// NewComposer returns the composer of passes for a fit.
func NewComposer(f *hardware.Fit) (*silicon.Composer, error) {
	memo.Lock()
	defer memo.Unlock()
	tables, err := loadTables(f)
	if err != nil {
		return nil, err
	}
	engine, _ := SplitEngine(f.Engine)
	return silicon.NewComposer(f, engine, tables), nil
}

// SplitEngine returns the engine and the release of Fit.Engine.
func SplitEngine(text string) (e optables.Engine, release string) {
	name, release, _ := strings.Cut(text, "-")
	switch name {
	case "sglang":
		return optables.SGLang, release
	case "trtllm":
		return optables.TRTLLM, release
	}
	return optables.VLLM, release
}
