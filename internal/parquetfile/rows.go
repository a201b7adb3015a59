package parquetfile

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/replay-llm/replay/internal/json"
)

// Rows reads the rows of a file in order.
type Rows struct {
	file    *File
	group   int // index of the next row group
	left    int64
	columns []cursor
}

// cursor is a position in a column.
type cursor struct {
	*column
	page  *page // nil: the next page must be read
	level int   // index of the next level of the page
	value int   // index of the next value of the page
}

// NewRows returns a reader of all rows.
func (f *File) NewRows() *Rows { return &Rows{file: f} }

// Append appends the next row to line as a JSON object. Append returns io.EOF after the last row.
func (r *Rows) Append(line []byte) ([]byte, error) {
	for r.left == 0 {
		if r.group == len(r.file.meta.RowGroups) {
			return line, io.EOF
		}
		group := &r.file.meta.RowGroups[r.group]
		r.left, r.columns = group.NumRows, nil
		for i := range r.file.leaves {
			c, err := r.file.openColumn(group, i)
			if err != nil {
				return line, err
			}
			r.columns = append(r.columns, cursor{column: c})
		}
		r.group++
	}
	r.left--
	return r.appendObject(line, r.file.root)
}

// level returns the repetition level and the definition level of the next value of a column.
func (r *Rows) level(leaf int) (repeated, defined int32, err error) {
	c := &r.columns[leaf]
	for c.page == nil || c.level == c.page.levels {
		if c.page, err = c.next(); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if c.level, c.value = 0, 0; err != nil {
			return 0, 0, fmt.Errorf("%s: %w", c.leaf.Name, err)
		}
	}
	defined = c.leaf.defined
	if c.page.repeated != nil {
		repeated = c.page.repeated[c.level]
	}
	if c.page.defined != nil {
		defined = c.page.defined[c.level]
	}
	return repeated, defined, nil
}

// skip skips an absent value in all columns of an element.
func (r *Rows) skip(n *node) error {
	for leaf := n.from; leaf < n.to; leaf++ {
		if _, _, err := r.level(leaf); err != nil {
			return err
		}
		r.columns[leaf].level++
	}
	return nil
}

func (r *Rows) appendObject(line []byte, n *node) ([]byte, error) {
	line = append(line, '{')
	for i, child := range n.children {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(AppendText(line, []byte(child.Name)), ':')
		var err error
		if line, err = r.appendNode(line, child); err != nil {
			return line, err
		}
	}
	return append(line, '}'), nil
}

// appendNode appends the value of an element: null, a list, an object or a single value.
func (r *Rows) appendNode(line []byte, n *node) ([]byte, error) {
	if n.from == n.to {
		return append(line, "null"...), nil
	}
	if n.optional || n.repeated {
		_, defined, err := r.level(n.from)
		if err != nil {
			return line, err
		}
		if defined < n.defined {
			absent := "null"
			if n.repeated {
				absent = "[]"
			}
			return append(line, absent...), r.skip(n)
		}
	}
	if !n.repeated {
		return r.appendValue(line, n)
	}
	entry := n
	line = append(line, '[')
	for {
		var err error
		if line, err = r.appendValue(line, entry); err != nil {
			return line, err
		}
		more, err := r.hasMore(n)
		if err != nil || !more {
			return append(line, ']'), err
		}
		line = append(line, ',')
	}
}

// hasMore reports whether the list has another entry.
func (r *Rows) hasMore(n *node) (bool, error) {
	c := &r.columns[n.from]
	if c.page != nil && c.level == c.page.levels && c.in.Len() == 0 {
		return false, nil // the last value of the row group
	}
	repeated, _, err := r.level(n.from)
	return repeated == n.repetition, err
}

// appendValue appends an entry of a list, or a value that is not absent.
func (r *Rows) appendValue(line []byte, n *node) ([]byte, error) {
	switch {
	case len(n.children) == 0:
		return r.appendLeaf(line, n.from)
	case isList(n): // the group that contains the repeated element
		return r.appendNode(line, n.children[0])
	case n.repeated && len(n.children) == 1 && (n.Name == "list" || n.Name == "bag" || n.Name == "array"):
		return r.appendNode(line, n.children[0])
	}
	return r.appendObject(line, n)
}

// isList reports whether a group represents a list.
func isList(n *node) bool {
	_, is := n.LogicalType.Value.(*format.ListType)
	is = is || n.ConvertedType.Valid && n.ConvertedType.V == deprecated.List
	return is && len(n.children) == 1 && n.children[0].repeated
}

// isText reports whether a column of bytes contains text.
func isText(e *format.SchemaElement) bool {
	switch e.LogicalType.Value.(type) {
	case *format.StringType, *format.EnumType, *format.JsonType:
		return true
	}
	return e.ConvertedType.Valid && (e.ConvertedType.V == deprecated.UTF8 || e.ConvertedType.V == deprecated.Enum || e.ConvertedType.V == deprecated.Json)
}

// appendLeaf appends a value of a column.
func (r *Rows) appendLeaf(line []byte, leaf int) ([]byte, error) {
	if _, _, err := r.level(leaf); err != nil {
		return line, err
	}
	c := &r.columns[leaf]
	at := c.value
	c.level, c.value = c.level+1, c.value+1
	if v := &c.page.values; at < len(v.texts) {
		if text := v.texts[at]; c.leaf.isTextValue || utf8.Valid(text) {
			return AppendText(line, text), nil
		}
		return append(line, "null"...), nil // binary data such as images
	} else if at < len(v.numbers) {
		return c.leaf.appendNumber(line, v.numbers[at]), nil
	}
	return line, errors.New("a page has fewer values than levels")
}

// appendNumber appends a number, a boolean or a time.
func (n *node) appendNumber(line []byte, bits uint64) []byte {
	switch kind := n.Type.V; kind {
	case format.Boolean:
		return strconv.AppendBool(line, bits != 0)
	case format.Float:
		return AppendFloat(line, float64(math.Float32frombits(uint32(bits))))
	case format.Double:
		return AppendFloat(line, math.Float64frombits(bits))
	default:
		whole := int64(bits)
		if kind == format.Int32 {
			whole = int64(int32(uint32(bits)))
		}
		if unit := n.timeUnit(); unit > 0 {
			return AppendTime(line, whole, unit)
		}
		if i, ok := n.LogicalType.Value.(*format.IntType); ok && !i.IsSigned {
			return strconv.AppendUint(line, bits, 10)
		}
		return strconv.AppendInt(line, whole, 10)
	}
}

// timeUnit returns the unit of a timestamp column, and 0 for other columns.
func (n *node) timeUnit() time.Duration {
	switch t := n.LogicalType.Value.(type) {
	case *format.TimestampType:
		if t.Unit.Value != nil {
			return t.Unit.Value.Duration()
		}
	case *format.DateType:
		return 24 * time.Hour
	}
	if n.ConvertedType.Valid {
		switch n.ConvertedType.V {
		case deprecated.TimestampMillis:
			return time.Millisecond
		case deprecated.TimestampMicros:
			return time.Microsecond
		case deprecated.Date:
			return 24 * time.Hour
		}
	}
	return 0
}

// AppendTime appends the time n units after 1970-01-01 as RFC 3339 in UTC.
func AppendTime(line []byte, n int64, unit time.Duration) []byte {
	per := int64(time.Second / unit)
	var at time.Time
	if per > 0 {
		at = time.Unix(n/per, n%per*int64(unit))
	} else {
		at = time.Unix(n*int64(unit/time.Second), 0)
	}
	return at.UTC().AppendFormat(line, `"2006-01-02T15:04:05.999999999Z"`)
}

// AppendFloat appends a number. AppendFloat appends null for NaN and infinity, which JSON does not support.
func AppendFloat(line []byte, x float64) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return append(line, "null"...)
	}
	return strconv.AppendFloat(line, x, 'g', -1, 64)
}

// AppendText appends a text as a JSON string.
func AppendText(line, text []byte) []byte {
	quoted, err := json.MarshalUnescaped(string(text))
	if err != nil {
		return append(line, "null"...)
	}
	return append(line, quoted...)
}
