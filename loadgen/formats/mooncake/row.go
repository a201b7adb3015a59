package mooncake

import (
	"errors"
	"fmt"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// row parses rows in the Mooncake format. Each row is a request with the hash ids of all blocks of its prompt.
type row struct {
	scanner      scan.Scanner
	arena        scan.Arena
	block        int           // tokens of a hash id
	delta        bool          // ids are those of the new tokens only
	seen         scan.FieldSet // all fields of the row
	priorityName string        // name of the priority field; "" means priority
	values
}

// values has the values of a row.
type values struct {
	set            scan.FieldSet // fields that are not null
	session        []byte        // a copy of the session id
	times          [4]float64    // timestamp, created_time, delay, delay_ms
	input, output  uint64        // lengths in the row
	ids            []uint64
	prompt, answer int32 // tokens
	priority       int32
	class          []byte
	misfit         bool // the number of ids is not the number of blocks of the prompt
}

// The fields are in the order of a row that is a JSON list.
const (
	fieldSession scan.FieldSet = 1 << iota
	fieldTimestamp
	fieldCreated
	fieldInput
	fieldOutput
	fieldIDs
	fieldDelay
	fieldDelayMS
	fieldPriority // this and the following fields cannot be in a list
	fieldClass
	fieldAfter // only in the format tasks
)

// FieldOf returns the field of a JSON key. FieldOf returns 0 for an unknown key.
func FieldOf(key []byte) scan.FieldSet {
	switch string(key) {
	case "session_id":
		return fieldSession
	case "timestamp":
		return fieldTimestamp
	case "created_time":
		return fieldCreated
	case "input_length", "input_tokens":
		return fieldInput
	case "output_length", "output_tokens":
		return fieldOutput
	case "hash_ids":
		return fieldIDs
	case "delay":
		return fieldDelay
	case "delay_ms":
		return fieldDelayMS
	case "priority":
		return fieldPriority
	case "class", "slo_class":
		return fieldClass
	case "after":
		return fieldAfter
	}
	return 0
}

// ownKey is FieldOf for files with a different name of the priority field.
func (m *row) ownKey(key []byte) scan.FieldSet {
	if string(key) == m.priorityName {
		return fieldPriority
	}
	return FieldOf(key) &^ fieldPriority
}

// fieldNames returns the names of the fields for error messages.
func fieldNames() [11]string {
	return [...]string{"session_id", "timestamp", "created_time", "input_length", "output_length", "hash_ids", "delay", "delay_ms", "priority", "class", "after"}
}

// readLine parses the row in a line.
func (m *row) readLine(line []byte) error {
	m.scanner.Reset(line)
	m.seen, m.set, m.priority = 0, 0, 0
	var err error
	if m.scanner.SkipSpace() == '[' {
		err = m.readList()
	} else {
		fieldOf := FieldOf
		if m.priorityName != "" {
			fieldOf = m.ownKey
		}
		err = m.scanner.ReadFields(&m.seen, fieldOf, m.readValue)
	}
	if err == nil {
		err = m.scanner.CheckEnd()
	}
	if err != nil {
		return err
	}
	return m.checkLengths()
}

// readList parses a row that is a JSON list.
func (m *row) readList() error {
	s := &m.scanner
	more, err := s.OpenValue('[', ']')
	for f := fieldSession; more && err == nil; f <<= 1 {
		if f > fieldDelayMS {
			return fmt.Errorf("a list of more than 8 fields")
		}
		if err = m.readValue(f); err != nil {
			return err
		}
		more, err = s.HasMore(']')
	}
	return err
}

// readValue parses the value of field f.
func (m *row) readValue(f scan.FieldSet) error {
	s := &m.scanner
	if s.ReadNull() {
		return nil
	}
	m.set |= f
	var err error
	switch f {
	case fieldSession:
		if s.Peek() != '"' {
			err = s.MismatchOf("a string")
		} else {
			err = m.sessionID()
		}
	case fieldTimestamp:
		m.times[0], err = s.ReadTime()
	case fieldCreated:
		m.times[1], err = s.ReadTime()
	case fieldDelay:
		m.times[2], err = s.ReadTime()
	case fieldDelayMS:
		m.times[3], err = s.ReadTime()
	case fieldInput:
		m.input, err = s.ReadInteger()
	case fieldOutput:
		m.output, err = s.ReadInteger()
	case fieldIDs:
		m.ids, err = s.IDList(&m.arena)
	case fieldPriority:
		m.priority, err = s.ReadPriority()
	case fieldClass:
		err = m.readClass()
	case fieldAfter:
		return errors.New("the row names what it waits for (after), and those before it have no id; must be an id in each, and --trace-format tasks")
	}
	if err != nil {
		if f == fieldPriority && m.priorityName != "" {
			return scan.NameField(m.priorityName, err)
		}
		return scan.NameField(fieldNames()[f.Place()], err)
	}
	return nil
}

// sessionID reads the session id and copies it. The id is never nil, because an empty string is a valid id.
func (m *row) sessionID() error {
	id, err := m.scanner.ReadString()
	if m.session == nil {
		m.session = make([]byte, 0, 32)
	}
	m.session = append(m.session[:0], id...)
	return err
}

// readClass reads the class and copies it.
func (m *row) readClass() error {
	if m.scanner.Peek() != '"' {
		return m.scanner.MismatchOf("a string")
	}
	name, err := m.scanner.ReadString()
	if err != nil {
		return err
	}
	m.class = append(m.class[:0], name...)
	return loadgen.CheckClassName(string(name))
}

func (m *row) has(field scan.FieldSet) bool { return m.set&field != 0 }

// either returns the first available of the times i and i+1. a and b are their fields.
func (m *row) either(a, b scan.FieldSet, i int) (float64, bool) {
	if m.has(a) {
		return m.times[i], true
	}
	if m.has(b) {
		return m.times[i+1], true
	}
	return 0, false
}

// checkLengths sets the prompt and answer lengths of the row, and checks them.
func (m *row) checkLengths() error {
	if !m.has(fieldIDs) {
		return fmt.Errorf("hash_ids is missing")
	}
	var err error
	if m.prompt, err = m.inputTokens(); err != nil {
		return err
	}
	if !m.has(fieldOutput) {
		return fmt.Errorf("output_length is missing")
	}
	m.answer, err = scan.TokenCount(m.output, "output_length")
	return err
}

// inputTokens returns the length of the prompt. The length is at most the number of tokens in the blocks of the ids.
func (m *row) inputTokens() (int32, error) {
	ids, block := uint64(len(m.ids)), uint64(m.block)
	held := ids * block
	if ids > 0 && held/ids != block {
		return 0, fmt.Errorf("hash_ids has %d ids of %d tokens, more tokens than can be counted", ids, block)
	}
	m.misfit = false
	if m.has(fieldInput) {
		m.misfit = !m.delta && m.input > 0 && (held < m.input || held-m.input >= block)
		held = min(held, m.input)
	}
	return scan.TokenCount(held, "input_length")
}
