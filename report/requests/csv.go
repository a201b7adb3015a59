package requests

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// writeCSV writes a line of names and a line per row; what is unknown is empty.
// It formats by itself, since numbers need no quoting and there are many.
func writeCSV(w io.Writer, rows []Row) error {
	columns := Columns()
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	if _, err := io.WriteString(w, strings.Join(names, ",")+"\n"); err != nil {
		return err
	}
	return writeText(w, rows, func(buf []byte, r *Row) []byte {
		for j := range columns {
			buf = append(columns[j].appendText(buf, r, appendCSVString), ',')
		}
		buf[len(buf)-1] = '\n'
		return buf
	})
}

func appendCSVString(dst []byte, s string) []byte {
	if !strings.ContainsAny(s, ",\"\r\n") && s[0] != ' ' {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(s, `"`, `""`)...)
	return append(dst, '"')
}

// readCSV reads what writeCSV writes.
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

// arrangeColumns finds the column of each name, nil for a name it does not know.
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
