package loadgen

import (
	"bufio"
	"bytes"
	"io"
)

// LooksAgentic says whether r holds a trace in the applied_compute_agentic
// format, by the keys of its first line that is not blank. What cannot be told
// counts as the Mooncake format, whose reader says what is wrong.
//
// The reader it returns gives all of r, and its errors.
func LooksAgentic(r io.Reader) (bool, io.Reader) {
	in := bufio.NewReaderSize(r, readBuffer)
	head, _ := in.Peek(readBuffer) // an error comes again when it is read
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte{'\n'})
		if !blank(line) {
			return agenticLine(line), in
		}
		head = rest
	}
	return false, in
}

// agenticLine looks at a line, or its beginning, up to the first key that only
// one of the formats has.
func agenticLine(line []byte) bool {
	var s scanner
	s.reset(line)
	more, err := s.open('{', '}')
	for more && err == nil {
		var key []byte
		if key, err = s.key(); err != nil {
			break
		}
		if agentic := agenticKey(key) != 0; agentic || mooncakeKey(key) != 0 {
			return agentic
		}
		if err = s.skip(); err == nil {
			more, err = s.more('}')
		}
	}
	return false
}
