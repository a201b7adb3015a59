// Package edit writes a sample of a trace, merges several traces, and scales or anonymizes a trace. Sessions remain
// complete, and shared prefixes of prompts remain shared.
//
// Read edit.go for the shared types, then sample.go (with components.go), merge.go, scale.go and anonymize.go.
package edit

import "github.com/replay-llm/replay/loadgen/formats"

// Source is a trace that can be read several times.
type Source interface {
	// Open starts reading at the first record. The caller must close the stream.
	Open() (*formats.Stream, error)
}

// Sink receives the records of an edited trace.
type Sink interface {
	Write(*formats.Record) error
}

// eachRecord calls do with every record of the source.
func eachRecord(from Source, do func(*formats.Stream, *formats.Record) error) error {
	s, err := from.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	return formats.Each(s, func(r *formats.Record) error { return do(s, r) })
}
