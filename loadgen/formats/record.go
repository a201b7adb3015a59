// Package formats contains the common part of all trace formats. A Record is a request of a trace. A Stream returns
// records in order, in bounded memory if the format permits it.
//
// The reader of a format converts rows to Records. A record has the ids of prompt blocks if the file has ids. Nothing
// is sorted, shifted or generated unless an option requests it.
//
// Package registry lists the formats, detects them and opens traces. Readers are in mooncake, tables (CSV and named
// columns), texts (prompts as text), sessions (conversations, agents and graphs), results (results of benchmark
// tools) and servegen. Package scan parses text. Package entries parses requests in results and spans, also for
// calibrate. Package write writes traces.
//
// Read record.go and stream.go, then gather.go (helpers of readers), cover.go (checks of rows) and assume.go
// (generated data). The files workload.go and tasks.go create a workload from a stream. The files ordered.go and
// spilled.go return requests in order of arrival without a workload. The file ids.go assigns ids to blocks.
package formats

import (
	"math/rand/v2"

	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// Record is a request of a trace. A reader reuses the Record, so its slices are only valid until the next call of
// Next.
type Record struct {
	Line int // line in the file, starting at 1; the first line of a request with several lines
	// Session is the name of the conversation. The request waits for the previous request of its session. Session is
	// nil if the request does not wait.
	Session []byte
	// Group is the name of the unit that is kept together if only a part of the trace is used. Group equals Session
	// if Session is not nil.
	Group []byte
	// At is the arrival in ms from the origin of the stream. Turns that wait for other turns may also have a recorded
	// arrival.
	At    float64
	HasAt bool
	// Delay is the time in ms from the completion of the previous turn.
	Delay    float64
	HasDelay bool
	Input    int // prompt tokens
	Output   int // answer tokens
	// Priority is the priority of the request. The lowest value is the most urgent. Priority is 0 if the file has no
	// priorities.
	Priority int32
	Class    []byte // nil if the file has no classes
	// IDs are the ids of the blocks of the prompt. Two blocks have equal text if their ids and all previous ids are
	// equal.
	IDs []uint64
	// Full is true if IDs omits an incomplete last block, which no prompt shares.
	Full bool
	// Private is true if the file has only the length of the prompt.
	Private bool
	// Name, Agent and After are used in a graph instead of Session and Delay. The fields are the name of the request,
	// its session within Group, and the requests for which it waits.
	Name  string
	Agent string
	After []Edge

	When    scan.Stamp // arrival in the file; Stream computes At from it
	Stamped bool       // When is set
	stored  int64      // 1 + offset of the ids in the file of Stream.StoreIDs; 0: they are in IDs
	Ended   scan.Stamp // recorded completion
}

// Edge is a dependency of a request on another request.
type Edge struct {
	Name     string // name of the other request
	Dispatch bool   // wait for its start; false: wait for its completion
	Relation string // sequence, spawn, join or replay_barrier
	Delay    float64
}

// Sequence reports whether e is part of a chain.
func (e *Edge) Sequence() bool { return !e.Dispatch && e.Relation == "sequence" }

// Quicken divides arrivals and delays after starts by rate. Quicken multiplies delays after completions by delays.
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

// Reset clears r but keeps the memory of its slices.
func (r *Record) Reset(line int) { *r = Record{Line: line, IDs: r.IDs[:0], After: r.After[:0]} }

// Arrives sets the arrival.
func (r *Record) Arrives(at scan.Stamp) { r.When, r.Stamped, r.HasAt = at, true, true }

// Negative returns the arrival in ms if it is before the beginning of the file's clock. Negative reports false for
// other arrivals.
func (r *Record) Negative() (ms float64, ok bool) {
	switch {
	case r.Stamped && r.When.Free, !r.HasAt:
		return 0, false
	case r.Stamped:
		return r.When.MS, r.When.MS < 0
	}
	return r.At, r.At < 0
}

// Reader reads records.
type Reader interface {
	// Next reads the next request into r. Next returns io.EOF after the last request. After a *loadgen.SyntaxError
	// about a row, reading may continue.
	Next(r *Record) error
}

// Options configure how a trace is read. The zero value detects the format and rejects invalid rows.
type Options struct {
	// Format is the name of the format. "" and "auto" detect the format.
	Format string
	// TraceBlock is the number of tokens of a hash id if neither the file nor the format defines it. 0 means 512.
	TraceBlock int
	LeftOpen
	// ReadLaw parses a random distribution of times in ms. If ReadLaw is nil, the times of tools must be numbers.
	ReadLaw func(text string) (draw func(random *rand.Rand) float64, err error)
	// Compat parses the decimals of Mooncake files like the reference.
	Compat bool
	// KeepGoing continues after any number of invalid rows in any format. KeepGoing is for commands that only read a
	// file.
	KeepGoing bool
	// Graph keeps all dependencies of requests, if the file has more than chains. Requests are returned after the
	// requests for which they wait.
	Graph bool
	// Unkept is true if requests are not kept in memory. The block ids of graphs are stored in a temporary file while
	// the file is read.
	Unkept bool
	// Tasks sets Graph for files in which chains are not sufficient, unless DAG is set.
	Tasks bool
	// Bad is called for every skipped row. Bad may be nil.
	Bad func(error)
	// Seed is the seed of random draws.
	Seed uint64
	// SharedRatio is the share of the first prompt that the sessions of a group have in common. Groups is the number
	// of groups.
	SharedRatio float64
	Groups      int
	// Key is the key for hashes of texts, at least 32 bytes. nil means a fixed key.
	Key []byte
	// Earliest is the earliest arrival of the file, from Stream.Earliest. If Earliest is nil, the arrival of the
	// first row is used.
	Earliest *Instant
	// Strict rejects options that have no effect on the detected format.
	Strict bool
	// Check rejects rows that cannot be replayed, also in Mooncake files, and rows with invalid dependencies.
	Check bool
	// Threads is the maximum number of goroutines that parse the rows of a Mooncake file. 0 means 1. The workload
	// does not depend on Threads.
	Threads int
	// Stop is called regularly to check whether reading must stop. Stop may be nil.
	Stop func() error
	// Warn is called once for each kind of warning. Warn may be nil.
	Warn func(string)
}

// LeftOpen has options for properties that files do not contain, and for invalid rows. The zero value generates
// nothing and rejects invalid rows.
type LeftOpen struct {
	// SkipBad is the maximum number of invalid rows to skip, in all formats except mooncake. A negative value means
	// any number.
	SkipBad int
	// ZeroOutput is the handling of requests with 0 output tokens: drop, one (output token) or error. "" means drop.
	// In Compat mode such requests do not change.
	ZeroOutput string
	// Sessions is auto, flat (no request waits for another request) or chain (requests of a conversation wait for
	// each other). "" means auto.
	Sessions string
	// DAG is the handling of requests that start or wait for several requests: refuse, chain or graph. The value
	// chain keeps only the links of chains, and graph keeps all links. "" means graph if chains are not sufficient
	// and the caller supports graphs.
	DAG string
	// AssumePrefix generates shared prefixes if the file has none: none, system:TOKENS, groups:N:RATIO, session, or
	// system:TOKENS,session.
	AssumePrefix string
	// TokensPerByte estimates the tokens of texts by their length. 0 rejects texts.
	TokensPerByte float64
	// Tokenizer is the path of a tokenizer.json for counting tokens exactly. "" means none.
	Tokenizer string
	// OutputTokens is the answer of requests without an output length; 0: refuse them.
	OutputTokens int
	// Columns names the columns of a table or the members of JSON objects, such as
	// arrival=time,input=prompt_tokens,output=completion_tokens. "" means that the file has a known format.
	Columns string
	// PriorityFrom is the name of the field for priorities instead of "priority". PriorityFrom is supported for
	// mooncake only.
	PriorityFrom string
	// Model selects requests to one model. "" selects all requests.
	Model string
	// Jitter is "" for unchanged arrivals, or second to spread requests of the same second evenly over it.
	Jitter string
	// Run is the number of the run in files with several runs, starting at 1. 0 selects the only run.
	Run int
	// ImageTokens is the number of prompt tokens of an image.
	ImageTokens int
	// Rate is the rate of generated arrivals in requests per second, for files without arrivals. For ServeGen it is a
	// factor of the rate. 0 generates no arrivals.
	Rate float64
	// From and To limit the time range of ServeGen clients, in s. To 0 means no limit.
	From, To float64
}

// WantsGraph reports whether the file is read as a graph.
func (o *Options) WantsGraph() bool {
	return (o.Graph && o.DAG == "" || o.DAG == "graph") && o.Sessions != "flat"
}

// WantsGraphOf reports whether a file is read as a graph. edges is the number of edges that do not belong to chains.
func (o *Options) WantsGraphOf(edges int) bool {
	return o.WantsGraph() || edges > 0 && o.Tasks && o.DAG == "" && o.Sessions != "flat"
}

// StopsAtBad reports whether reading stops at the first invalid row.
func (o *Options) StopsAtBad() bool { return o.SkipBad == 0 && !o.KeepGoing }

const DefaultBlock = 512

// Instant is a point in time of a file, for computing differences to other times.
type Instant struct{ stamp scan.Stamp }

// Formats that the reference also supports.
const (
	Mooncake = "mooncake"                // a request per line
	Agentic  = "applied_compute_agentic" // an agent per line, without timestamps
)

// Tasks is the format of Mooncake rows with request ids, in which rows name the requests that they wait for.
const Tasks = "tasks"
