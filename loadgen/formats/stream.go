package formats

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/sim"
)

// Stream returns the requests of a trace in file order.
type Stream struct {
	Name    string // name of the file in errors
	Format  string // given or detected format
	Also    []string
	Block   int  // tokens per id
	Private bool // the file has no information about shared prefixes
	// Chained means that requests wait for other requests. Untimed means that no request has an arrival. Measured
	// means that times were recorded by a client that waited for answers.
	Chained, Untimed, Measured bool
	Approximate                bool // lengths are estimated from bytes

	Lines   *scan.Lines
	Options Options
	rows    Reader
	Shape   shape

	origin  scan.Stamp
	started bool
	read    int // number of records requested
	skipped int // number of invalid rows skipped
	dropped int // number of rows that the format excludes, such as failures
	Zeroes  int // number of skipped requests with 0 output tokens
	cover   cover
	order   *Order      // nil unless rows are checked
	assume  *assumption // nil unless prefixes are generated
	pacer   *pacer      // nil unless arrivals are generated
	file    io.Closer   // file to close with the stream; nil: none
	ids     *spilled    // temporary file of StoreIDs; nil: none
}

// shape has properties of a format after reading.
type shape struct {
	Raw      bool // times and ids do not change: no shift to the origin, no new numbers
	Exact    bool // a prompt has exactly one id for each block
	Inexact  bool // any number of ids may follow the ids of full blocks
	ownBlock bool // the file or the format defines the block size
}

// Start returns the stream of an uncompressed trace in r. size is its size in bytes, or 0 if it is unknown. name is
// its name in errors. The caller must call Begin with the reader of the format.
func Start(r io.Reader, name string, size int64, o Options) (*Stream, error) {
	s := &Stream{Name: name, Lines: scan.NewLines(r, name, size), Options: o}
	return s, s.checkOptions()
}

// Begin sets the reader of the stream's format, and initializes the options that depend on it.
func (s *Stream) Begin(rows Reader) error {
	if s.rows = rows; s.Options.Jitter != "" {
		s.rows = &jitter{rows: rows}
	}
	s.Shape.ownBlock = s.Block != 0
	s.Block = cmp.Or(s.Block, s.Options.TraceBlock, DefaultBlock)
	if s.Options.Check {
		s.order = NewOrder(s.Name)
		s.order.most = mostChecked
	}
	if e := s.Options.Earliest; e != nil {
		s.origin, s.started = e.stamp, true
	}
	a, err := parseAssumption(s.Options.AssumePrefix)
	if err != nil || a == nil {
		return err
	}
	if !s.Private {
		return fmt.Errorf("%s: %s tells the prefixes that prompts share, remove the assumption of a prefix", s.Name, s.Format)
	}
	a.begin(s)
	s.assume = a
	return nil
}

// Own makes Close close the file.
func (s *Stream) Own(file io.Closer) { s.file = file }

func (s *Stream) checkOptions() error {
	o := &s.Options
	if o.TraceBlock < 0 {
		return fmt.Errorf("trace block size is %d, must be > 0", o.TraceBlock)
	}
	for _, c := range []struct{ name, value, names string }{
		{"zero output", o.ZeroOutput, "drop one error"},
		{"sessions", o.Sessions, "auto flat chain"},
		{"DAG", o.DAG, "refuse chain graph"},
		{"jitter", o.Jitter, "second"},
	} {
		if c.value != "" && !strings.Contains(" "+c.names+" ", " "+c.value+" ") {
			return excerpt.Errorf("%s is %q, must be %s", c.name, c.value, strings.ReplaceAll(c.names, " ", ", "))
		}
	}
	if !(o.TokensPerByte >= 0 && o.TokensPerByte <= 16) {
		return fmt.Errorf("tokens per byte are %v, must be 0 to 16", o.TokensPerByte)
	}
	if o.Columns != "" && o.Format != "" && o.Format != "auto" {
		return fmt.Errorf("columns are said, and that the format is %s, must be one of them", o.Format)
	}
	if o.TokensPerByte != 0 && o.Tokenizer != "" {
		return errors.New("tokens per byte and a tokenizer are given, must be one of them")
	}
	if o.Key != nil && len(o.Key) < 32 {
		return fmt.Errorf("the key has %d bytes, must have at least 32", len(o.Key))
	}
	return nil
}

// Next reads the next request into r.
func (s *Stream) Next(r *Record) error {
	if s.read++; s.read&1023 == 0 && s.Options.Stop != nil {
		if err := s.Options.Stop(); err != nil {
			return err
		}
	}
	for {
		r.Reset(0)
		err := s.rows.Next(r)
		if err == nil {
			var keep bool
			if keep, err = s.finishRecord(r); err == nil && !keep {
				continue
			}
		}
		if err == nil || err == io.EOF {
			return err
		}
		if err = s.countBad(err); err != nil {
			return err
		}
	}
}

// countBad counts err as an invalid row. countBad returns err if too many rows are invalid.
func (s *Stream) countBad(err error) error {
	if !isBadRow(err) || s.Options.StopsAtBad() {
		return err
	}
	if s.Options.SkipBad > 0 && !s.Options.KeepGoing && s.skipped >= s.Options.SkipBad {
		return scan.Fatal(fmt.Errorf("%w (%d bad rows skipped before, must be at most %d)", err, s.skipped, s.Options.SkipBad))
	}
	s.skipped++
	if s.Options.Bad != nil {
		s.Options.Bad(err)
	}
	return nil
}

// isBadRow reports whether err is about a row and later rows can be read.
func isBadRow(err error) bool {
	var row *loadgen.SyntaxError
	return errors.As(err, &row) && !scan.IsFatal(err)
}

// Raw reports whether times and ids must not change.
func (s *Stream) Raw() bool { return s.Shape.Raw }

// Drop counts a row that the format excludes.
func (s *Stream) Drop() { s.dropped++ }

// Dropped returns the counts of dropped rows so far.
func (s *Stream) Dropped() loadgen.Dropped {
	return loadgen.Dropped{ZeroOutput: s.Zeroes, Other: s.dropped, Bad: s.skipped}
}

// finishRecord completes a record of the format's reader with the rules for all formats.
func (s *Stream) finishRecord(r *Record) (keep bool, err error) {
	if r.Session != nil && s.Options.Sessions == "flat" && r.HasAt {
		r.Session, r.HasDelay, r.Delay = nil, false, 0
	}
	if keep, err := s.ApplyZeroOutput(r); !keep {
		return false, err
	}
	if !s.Shape.Raw {
		if r.Input <= 0 {
			return false, s.RowError(r, "input is %d, must be > 0", r.Input)
		}
		if err := s.countIDs(r); err != nil {
			return false, err
		}
		s.countArrival(r)
	}
	if err := s.checkTimes(r); err != nil {
		return false, err
	}
	if err := s.checkReplayed(r); err != nil {
		return false, err
	}
	if s.assume != nil {
		s.assume.fillIDs(r)
	}
	return true, nil
}

// ApplyZeroOutput applies the option ZeroOutput to a request.
func (s *Stream) ApplyZeroOutput(r *Record) (keep bool, err error) {
	if r.Output > 0 {
		return true, nil
	}
	r.Output, keep, err = s.ReplaceZero()
	if err != nil {
		err = s.RowError(r, "%v", err)
	}
	return keep, err
}

// ReplaceZero returns the output length for a request with 0 output tokens by the option ZeroOutput.
func (s *Stream) ReplaceZero() (output int, keep bool, err error) {
	switch {
	case s.Shape.Raw && s.Options.Compat:
		return 0, true, nil
	case s.Options.ZeroOutput == "one":
		return 1, true, nil
	case s.Options.ZeroOutput == "error":
		return 0, false, errors.New("the output is 0 tokens, must be at least 1 (--zero-output drop or one)")
	}
	s.Zeroes++
	return 0, false, nil
}

// maxBlocks is the maximum number of blocks of a prompt. Without a limit, a short row could require any number of
// blocks.
const maxBlocks = 1 << 24

// countIDs checks that a prompt has an id for each full block. An incomplete last block has one more id, which some
// formats may omit.
func (s *Stream) countIDs(r *Record) error {
	if blocks := r.Input / s.Block; blocks > maxBlocks {
		return s.RowError(r, "the prompt is %d blocks of %d tokens, must be at most %d", blocks, s.Block, maxBlocks)
	}
	if r.Private || s.Private || s.assume != nil {
		r.Private = true
		return nil
	}
	full, rest := r.Input/s.Block, r.Input%s.Block
	n, spare := len(r.IDs), !s.Shape.Exact
	s.cover.add(uint64(n), uint64(r.Input), spare, s.Shape.Inexact)
	switch {
	case n == full && rest == 0, n == full+1 && rest > 0:
		return nil
	case n == full && spare:
		r.Full = true
		return nil
	case s.Shape.Inexact && n > full:
		r.IDs, r.Full = r.IDs[:full], rest > 0
		return nil
	}
	return s.coverError(r, uint64(n), uint64(r.Input), spare)
}

// countArrival computes the arrival relative to the origin.
func (s *Stream) countArrival(r *Record) {
	if !r.Stamped {
		return
	}
	if !s.started {
		s.origin, s.started = r.When, true
	}
	r.At = r.When.Since(s.origin)
}

func (s *Stream) RowError(r *Record, format string, args ...any) error {
	return &loadgen.SyntaxError{Name: s.Name, Line: r.Line, Msg: excerpt.Sprintf(format, args...)}
}

// Earliest reads all records of the stream and returns the earliest arrival, for the Options of another pass.
// Earliest returns nil if no record has an arrival.
func (s *Stream) Earliest() (*Instant, error) {
	var first *Instant
	err := Each(s, func(r *Record) error {
		if r.Stamped && (first == nil || r.When.Compare(first.stamp) < 0) {
			first = &Instant{r.When}
		}
		return nil
	})
	return first, err
}

// Close closes the file of the trace and the temporary file of StoreIDs.
func (s *Stream) Close() error {
	if err := s.dropIDs(); err != nil {
		return err
	}
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// pacer generates arrivals for a file without arrivals. The gaps are exponentially distributed.
type pacer struct {
	random *rand.Rand
	rate   float64 // requests per ms
	at     float64
}

// PaceArrivals enables generated arrivals for a format without arrivals, if the option Rate is set.
func (s *Stream) PaceArrivals() {
	s.Untimed = s.Options.Rate <= 0
	if !s.Untimed {
		s.pacer = &pacer{random: sim.NewRand(s.Options.Seed, "formats/arrivals"), rate: s.Options.Rate / 1000}
	}
}

// ArrivePaced sets the arrival of r to the next generated arrival, if they are enabled.
func (s *Stream) ArrivePaced(r *Record) {
	if s.pacer == nil {
		return
	}
	r.Arrives(scan.Stamp{MS: s.pacer.at})
	s.pacer.at += s.pacer.random.ExpFloat64() / s.pacer.rate
}

// Warn calls the Warn of the options, if it is set.
func (s *Stream) Warn(text string) {
	if s.Options.Warn != nil {
		s.Options.Warn(text)
	}
}
