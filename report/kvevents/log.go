// Package kvevents writes the KV cache events of a replay as engines publish them, one line of JSON per event. The
// names equal those of replay kv-tail --json, which prints the events of a real engine.
package kvevents

import (
	"bufio"
	"fmt"
	"io"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Log observes a replay with engines that report KV events, and writes these events.
type Log struct {
	harness.NoObserver
	out *bufio.Writer
	enc *json.Encoder
	err error // the first; nothing is written after it
}

// New returns a log that writes to w.
func New(w io.Writer) *Log {
	l := &Log{out: bufio.NewWriterSize(w, 64<<10)}
	l.enc = json.NewEncoder(l.out)
	return l
}

// line is one event.
type line struct {
	Time   float64  `json:"time_ms"` // when it is announced
	Stage  string   `json:"stage,omitempty"`
	Worker int32    `json:"worker"`
	Rank   int32    `json:"rank"`
	Type   string   `json:"type"` // BlockStored, BlockRemoved or BlockUpdated
	Blocks []string `json:"blocks"`
	Parent string   `json:"parent,omitempty"`
	Tokens []string `json:"tokens_hashes,omitempty"`
	Medium string   `json:"medium,omitempty"`
}

// Pass writes the events of a pass.
func (l *Log) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	at := p.Start
	if p.KVAtEnd {
		at = p.End
	}
	for i := range p.Events {
		e := &p.Events[i]
		n := line{Time: float64(at), Worker: int32(w), Rank: e.Rank, Type: "BlockStored"}
		if stage != scheduler.Aggregated {
			n.Stage = stage.String()
		}
		if e.Tier != scheduler.Device {
			n.Medium = e.Tier.String()
		}
		for _, b := range e.Stored {
			n.Blocks, n.Tokens = append(n.Blocks, formatHash(b.Seq)), append(n.Tokens, formatHash(b.Tokens))
		}
		if e.HasParent {
			n.Parent = formatHash(e.Parent)
		}
		if len(e.Removed) > 0 {
			n.Type = "BlockRemoved"
			for _, h := range e.Removed {
				n.Blocks = append(n.Blocks, formatHash(h))
			}
		}
		if len(e.Moved) > 0 {
			n.Type, n.Medium = "BlockUpdated", e.Tier.String()
			for _, h := range e.Moved {
				n.Blocks = append(n.Blocks, formatHash(h))
			}
		}
		if l.err == nil {
			l.err = l.enc.Encode(&n)
		}
	}
}

func formatHash(h uint64) string { return fmt.Sprintf("%016x", h) }

// Close writes buffered events.
func (l *Log) Close() error {
	if l.err != nil {
		return l.err
	}
	return l.out.Flush()
}
