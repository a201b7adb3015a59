// Package formats has the common part of all trace formats: a Record per request, and the Stream that gives them one
// after the other, in bounded memory where the format allows it.
//
// A format is read by mapping it onto Record, with ids for the blocks of the prompt where the file has some. Nothing is
// sorted, shifted or made up without an option that asks for it. Package registry lists the formats, tells them apart and
// opens a trace. Their readers are in mooncake, tables (CSV, and columns that the user names), texts (prompts as text),
// sessions (conversations, agents and graphs), results (results of benchmark tools) and servegen. They read text with
// package scan; entries reads what results and spans hold of a request, for calibrate too. Package write writes traces.
//
// Read record.go and stream.go, then gather.go (helpers of readers), cover.go (checks of rows) and assume.go (what is made
// up). workload.go and tasks.go make a workload of a stream; ordered.go and spilled.go give its requests in order of arrival
// without a workload; ids.go numbers blocks.
package formats

import (
	"math/rand/v2"

	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// Record is one request of a trace. A reader fills the same Record again and
// again: its slices are valid until the next.
type Record struct {
	Line int // in the file, from 1; of its beginning, where a request takes several
	// Session names the conversation of which the request waits for its predecessor; nil: it waits for no request.
	Session []byte
	// Group names what belongs together when a part of the trace is taken. It is
	// Session where that is not nil.
	Group []byte
	// At is the arrival in ms from the origin of the stream. Turns that wait for other turns may have one too, as it
	// was recorded.
	At    float64
	HasAt bool
	// Delay is the time in ms from the completion of the turn before.
	Delay    float64
	HasDelay bool
	Input    int // prompt tokens
	Output   int // answer tokens
	// Priority is the priority, the least the most urgent; 0 if the file has none.
	Priority int32
	Class    []byte // nil if the file has none
	// IDs names the blocks of the prompt; equal ids at equal places after equal
	// ids are equal text.
	IDs []uint64
	// Full is true if IDs leaves out a last block that is not full, which no prompt shares.
	Full bool
	// Private is true if the file has only the length of the prompt.
	Private bool
	// Name, Agent and After replace Session and Delay in a graph: the request's name, its session within Group, and the
	// requests that it waits for.
	Name  string
	Agent string
	After []Edge

	When    scan.Stamp // the arrival as the file has it; Stream makes At of it
	Stamped bool       // when is set
	stored  int64      // 1 + where Stream.StoreIDs has put the ids; 0: they are in IDs
	Ended   scan.Stamp // the recorded completion
}

// Edge is a request's wait for another.
type Edge struct {
	Name     string // of the other
	Dispatch bool   // for its start; otherwise for its completion
	Relation string // sequence, spawn, join or replay_barrier
	Delay    float64
}

// Sequence reports whether e is one of a chain.
func (e *Edge) Sequence() bool { return !e.Dispatch && e.Relation == "sequence" }

// Quicken divides the times at which things came, which dispatches are, too, and
// multiplies waits after completions.
func (r *Record) Quicken(rate, delays float64) {
	r.At /= rate
	r.Delay *= delays
	for i := range r.After {
		if e := &r.After[i]; e.Dispatch {
			e.Delay /= rate
		} else {
			e.Delay *= delays
		}
	}
}

// Reset empties r but keeps the memory of its ids.
func (r *Record) Reset(line int) { *r = Record{Line: line, IDs: r.IDs[:0], After: r.After[:0]} }

// Arrives sets the arrival from an instant of the file.
func (r *Record) Arrives(at scan.Stamp) { r.When, r.Stamped, r.HasAt = at, true, true }

// Negative is the arrival in ms as the file has it, if the file counts from its
// own beginning and the request came before that.
func (r *Record) Negative() (ms float64, ok bool) {
	switch {
	case r.Stamped && r.When.Free, !r.HasAt:
		return 0, false
	case r.Stamped:
		return r.When.MS, r.When.MS < 0
	}
	return r.At, r.At < 0
}

// Reader gives records.
type Reader interface {
	// Next fills r with the next request; io.EOF comes after the last. After a
	// *loadgen.SyntaxError about a row, reading may continue.
	Next(r *Record) error
}

// Options set how a trace is read. The zero value detects the format and refuses whatever is not right.
type Options struct {
	// Format is the name of the format; "" and "auto" read the file.
	Format string
	// TraceBlock is the number of tokens of a hash id, where the file does not have it and the format does not fix it;
	// 0: 512.
	TraceBlock int
	LeftOpen
	// ReadLaw reads a law of times in ms; nil: the times of tools are numbers.
	ReadLaw func(text string) (draw func(random *rand.Rand) float64, err error)
	// Compat reads the decimals of Mooncake files as the reference does.
	Compat bool
	// KeepGoing continues after bad rows of any format and any number of them, for commands that only read a file.
	KeepGoing bool
	// Graph keeps the dependencies of requests as in the file, if it has more than chains. Requests come after those
	// they wait for.
	Graph bool
	// Unkept is true if the requests are not kept. The ids of graphs' prompts wait in a temporary file while the file
	// is read.
	Unkept bool
	// Tasks takes it so where chains are not enough, unless DAG sets another way.
	Tasks bool
	// Bad, when not nil, is called for every skipped row.
	Bad func(error)
	// Seed of whatever is drawn.
	Seed uint64
	// SharedRatio and Groups are those of loadgen.AgenticOptions.
	SharedRatio float64
	Groups      int
	// Key makes the ids of texts, at least 32 bytes; nil: a fixed one.
	Key []byte
	// Earliest is the earliest arrival of the file, from Stream.Earliest; nil:
	// that of the first row.
	Earliest *Instant
	// Strict refuses options for which the format found has no use.
	Strict bool
	// Check rejects rows that cannot be replayed, also of Mooncake, and rows that are invalid only in their
	// dependencies.
	Check bool
	// Threads is the number of goroutines that may parse the rows of a Mooncake file; 0 is 1. The workload does not
	// depend on it.
	Threads int
	// Stop, when not nil, is asked now and then whether to stop reading.
	Stop func() error
	// Warn, when not nil, is called once for whatever is remarkable.
	Warn func(string)
}

// LeftOpen is what files leave open, and the handling of rows that are
// not right. The zero value makes nothing up and refuses them.
type LeftOpen struct {
	// SkipBad is the number of bad rows to skip, in all formats but mooncake;
	// negative: any number.
	SkipBad int
	// ZeroOutput sets the handling of requests for 0 answer tokens: drop them, make it one, or error. "": drop. As the
	// reference reads its formats, such requests stay unchanged.
	ZeroOutput string
	// Sessions is auto, flat (no request waits for another) or chain (requests
	// of one conversation wait for each other). "": auto.
	Sessions string
	// DAG is the reading of requests that wait for, or start, several requests: refuse; chain, which keeps only the
	// links of chains; or graph, which keeps all links, also if chains would suffice. "": a graph where chains are not
	// enough, if the caller takes one.
	DAG string
	// AssumePrefix makes up shared prefixes if the file has none: none, system:TOKENS, groups:N:RATIO, session, or
	// system:TOKENS,session.
	AssumePrefix string
	// TokensPerByte counts the tokens of texts, approximately; 0: refuse them.
	TokensPerByte float64
	// Tokenizer is the path of a tokenizer.json that counts them exactly; "": none.
	Tokenizer string
	// OutputTokens is the answer of requests without an output length; 0: refuse them.
	OutputTokens int
	// Columns names the columns of a table, or members of JSON objects, of requests, such as
	// arrival=time,input=prompt_tokens,output=completion_tokens; "": the file is in a known format.
	Columns string
	// PriorityFrom names the field of a request's priority, instead of "priority";
	// mooncake only.
	PriorityFrom string
	// Model keeps only requests to that model; "": all.
	Model string
	// Jitter is "" for unchanged arrivals, or second to spread those of the same whole second evenly over it; BurstGPT
	// only.
	Jitter string
	// Run is the number, from 1, of the run in files with several; 0: the only
	// one.
	Run int
	// ImageTokens is the number of prompt tokens of an image.
	ImageTokens int
	// Rate is the rate of made-up arrivals, requests per second, for files without arrivals, and scales those of
	// ServeGen; 0: none are made.
	Rate float64
	// From and To bound the seconds of ServeGen clients; To 0: up to their end.
	From, To float64
}

// WantsGraph reports whether the file is to be given as a graph.
func (o *Options) WantsGraph() bool {
	return (o.Graph && o.DAG == "" || o.DAG == "graph") && o.Sessions != "flat"
}

// WantsGraphOf reports whether a file with this number of edges that are no chain is to be given as a graph.
func (o *Options) WantsGraphOf(edges int) bool {
	return o.WantsGraph() || edges > 0 && o.Tasks && o.DAG == "" && o.Sessions != "flat"
}

// StopsAtBad reports whether the first bad row is the end.
func (o *Options) StopsAtBad() bool { return o.SkipBad == 0 && !o.KeepGoing }

const DefaultBlock = 512

// Instant is an instant of a file, to count other instants from.
type Instant struct{ stamp scan.Stamp }

// The formats that the reference reads.
const (
	Mooncake = "mooncake"                // a request per line
	Agentic  = "applied_compute_agentic" // an agent per line; it has no timestamps
)

// Tasks is Mooncake's rows with ids, some of which name those they wait for.
const Tasks = "tasks"
