// Package edit makes traces of traces: a part of one, several in one, scaled or
// anonymous ones. Sessions stay whole, and prompts that began alike still do.
//
// Read edit.go for what all have in common, then sample.go (with components.go),
// merge.go, scale.go and anonymize.go.
package edit

import "github.com/replay-llm/replay/loadgen/formats"

// Source gives a trace as often as it is read.
type Source interface {
	// Open starts reading from the beginning. The stream is to be closed.
	Open() (*formats.Stream, error)
}

// Sink takes records.
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
