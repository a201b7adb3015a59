package requests

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/parquet"
)

// newJSONL returns a writer of one JSON object per line, with all columns in order. Unknown values are null.
func newJSONL(w io.Writer, columns []Column) *textForm {
	keys := make([]string, len(columns))
	for i := range columns {
		keys[i] = `,"` + columns[i].Name + `":`
	}
	return &textForm{out: w, format: func(buf []byte, r *Row) []byte {
		begin := len(buf)
		for j := range columns {
			buf = append(buf, keys[j]...)
			start := len(buf)
			if buf = columns[j].appendText(buf, r, appendJSONString); len(buf) == start {
				buf = append(buf, "null"...)
			}
		}
		buf[begin] = '{'
		return append(buf, "}\n"...)
	}}
}

// textForm writes a header, and a text for each row.
type textForm struct {
	out    io.Writer
	head   string
	format func(dst []byte, r *Row) []byte
}

func (f *textForm) addRows(rows []Row) error {
	if err := f.close(); err != nil {
		return err
	}
	return writeText(f.out, rows, f.format)
}

func (f *textForm) close() error {
	if f.head == "" {
		return nil
	}
	_, err := io.WriteString(f.out, f.head)
	f.head = ""
	return err
}

// readBuffer is the size of the read buffer in bytes.
const readBuffer = 1 << 16

// appendText appends a value as text, and nothing for an unknown value.
func (c *Column) appendText(dst []byte, r *Row, quote func([]byte, string) []byte) []byte {
	v := c.at(r)
	switch {
	case !c.Required && !c.isKnown(v):
		return dst
	case c.Kind == parquet.Int64:
		return strconv.AppendInt(dst, v.Int(), 10)
	case c.Kind == parquet.Double:
		return collector.AppendFloat(dst, v.Float())
	case c.Kind == parquet.Text:
		return quote(dst, v.String())
	}
	return strconv.AppendBool(dst, v.Int() == int64(Met))
}

// appendJSONString appends s with quotes. Plain text takes a fast path.
func appendJSONString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // a string can always be marshalled
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// readJSONL reads a file that newJSONL has written.
func readJSONL(in io.Reader) ([]Row, error) {
	columns, unknown := Columns(), newRow()
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
		rows = append(rows, unknown)
		for i := range columns {
			value, ok := values[columns[i].Name]
			if (!ok || string(value) == "null") && !columns[i].Required {
				continue
			}
			if err := columns[i].unmarshalValue(&rows[line-1], value); err != nil {
				return nil, fmt.Errorf("row %d: %s: %w", line, columns[i].Name, err)
			}
		}
	}
}

func (c *Column) unmarshalValue(r *Row, value json.RawMessage) error {
	text := string(value)
	if c.Kind == parquet.Text {
		if err := json.Unmarshal(value, &text); err != nil {
			return fmt.Errorf("%s, must be a string", value)
		}
	}
	return c.parseText(r, text)
}

// parseText parses a value of the column and sets it in r.
func (c *Column) parseText(r *Row, text string) error {
	at := c.at(r)
	switch c.Kind {
	case parquet.Int64:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 {
			return excerpt.Errorf("%q, must be an integer of at least 0", text)
		}
		at.SetInt(v)
	case parquet.Double:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return excerpt.Errorf("%q, must be a number", text)
		}
		at.SetFloat(v)
	case parquet.Bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return excerpt.Errorf("%q, must be true or false", text)
		}
		at.SetInt(int64(verdictOf(v)))
	case parquet.Text:
		at.SetString(text)
	}
	return nil
}

// newCSV returns a writer of a header line and one line per row. Unknown values are empty. The CSV writer has a
// separate encoder, since most values are numbers, which need no quotes.
func newCSV(w io.Writer, columns []Column) *textForm {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	return &textForm{out: w, head: strings.Join(names, ",") + "\n", format: func(buf []byte, r *Row) []byte {
		for j := range columns {
			buf = append(columns[j].appendText(buf, r, appendCSVString), ',')
		}
		buf[len(buf)-1] = '\n'
		return buf
	}}
}

func appendCSVString(dst []byte, s string) []byte {
	if !strings.ContainsAny(s, ",\"\r\n") && s[0] != ' ' {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(s, `"`, `""`)...)
	return append(dst, '"')
}

// readCSV reads a file that newCSV has written.
func readCSV(in io.Reader) ([]Row, error) {
	records := csv.NewReader(bufio.NewReaderSize(in, readBuffer))
	records.ReuseRecord = true
	names, err := records.Read()
	if err != nil {
		return nil, fmt.Errorf("no line of names: %w", err)
	}
	byPlace, err := arrangeColumns(names)
	if err != nil {
		return nil, err
	}
	var rows []Row
	unknown := newRow()
	for line := 2; ; line++ {
		values, err := records.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, unknown)
		for i, c := range byPlace {
			if c == nil || (values[i] == "" && !c.Required) {
				continue
			}
			if err := c.parseText(&rows[line-2], strings.Clone(values[i])); err != nil {
				return nil, fmt.Errorf("line %d: %s: %w", line, c.Name, err)
			}
		}
	}
}

// arrangeColumns returns the column of each name, nil for an unknown name.
func arrangeColumns(names []string) ([]*Column, error) {
	columns := Columns()
	byName := make(map[string]*Column, len(columns))
	for i := range columns {
		byName[columns[i].Name] = &columns[i]
	}
	byPlace := make([]*Column, len(names))
	for i, name := range names {
		byPlace[i] = byName[name]
		delete(byName, name)
	}
	for i := range columns {
		if _, missing := byName[columns[i].Name]; missing && columns[i].Required {
			return nil, fmt.Errorf("no column %s", columns[i].Name)
		}
	}
	return byPlace, nil
}
