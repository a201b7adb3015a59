package requests

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/replay-llm/replay/replay/collector"
)

// writeJSONL writes an object per line with all columns in order; null stands
// for what is unknown.
func writeJSONL(w io.Writer, rows []Row) error {
	columns := Columns()
	keys := make([]string, len(columns))
	for i := range columns {
		keys[i] = `,"` + columns[i].Name + `":`
	}
	return writeText(w, rows, func(buf []byte, r *Row) []byte {
		begin := len(buf)
		for j := range columns {
			buf = append(buf, keys[j]...)
			start := len(buf)
			if buf = appendText(buf, &columns[j], r, appendJSONString); len(buf) == start {
				buf = append(buf, "null"...)
			}
		}
		buf[begin] = '{'
		return append(buf, "}\n"...)
	})
}

// readBuffer is how many bytes are read at once.
const readBuffer = 1 << 16

// appendText appends a value as text, nothing when there is none.
func appendText(dst []byte, c *Column, r *Row, quote func([]byte, string) []byte) []byte {
	switch c.Kind {
	case Int:
		if v, ok := c.Int(r); ok {
			return strconv.AppendInt(dst, v, 10)
		}
	case Float:
		if v, ok := c.Float(r); ok {
			return collector.AppendFloat(dst, v)
		}
	case Text:
		if v, ok := c.Text(r); ok {
			return quote(dst, v)
		}
	case Bool:
		if v, ok := c.Bool(r); ok {
			return strconv.AppendBool(dst, v)
		}
	}
	return dst
}

// appendJSONString quotes s; plain text, the usual case, without a detour.
func appendJSONString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // a string cannot fail
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// readJSONL reads what writeJSONL writes.
func readJSONL(in io.Reader) ([]Row, error) {
	columns := Columns()
	var rows []Row
	dec := json.NewDecoder(bufio.NewReaderSize(in, readBuffer))
	for line := 1; ; line++ {
		var values map[string]json.RawMessage
		err := dec.Decode(&values)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", line, err)
		}
		r := newRow()
		for i := range columns {
			value, ok := values[columns[i].Name]
			if (!ok || string(value) == "null") && !columns[i].Required {
				continue
			}
			if err := columns[i].unmarshalValue(&r, value); err != nil {
				return nil, fmt.Errorf("row %d: %s: %w", line, columns[i].Name, err)
			}
		}
		rows = append(rows, r)
	}
}

func (c *Column) unmarshalValue(r *Row, value json.RawMessage) error {
	text := string(value)
	if c.Kind != Text {
		return c.parseText(r, text)
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return fmt.Errorf("%s, want a string", text)
	}
	c.setText(r, s)
	return nil
}

// parseText puts a value written as text into r.
func (c *Column) parseText(r *Row, text string) error {
	switch c.Kind {
	case Int:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 {
			return fmt.Errorf("%q, want an integer of at least 0", text)
		}
		c.setInt(r, v)
	case Float:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q, want a number", text)
		}
		c.setFloat(r, v)
	case Bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q, want true or false", text)
		}
		c.setBool(r, v)
	case Text:
		c.setText(r, text)
	}
	return nil
}
