// Package parquet writes and reads the Parquet files of a run: flat columns,
// each of which may be optional or hold lists.
//
// It stands on the encodings, the metadata and the Thrift of parquet-go, without
// that library's package of rows and schemas. That one imports Protocol Buffers,
// geometry and, by way of Brotli, a web server, which would be initialised at the
// start of every command, whether it writes a file or not. Its tests hold the
// files to be the same, byte by byte.
//
// Read parquet.go, then chunk.go, page.go and write.go; read.go, and fields.go for
// files of structs.
package parquet

import (
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Kind is the type of a column's values.
type Kind int8

const (
	Bool Kind = iota
	Int32
	Int64
	Double
	Text
)

func (k Kind) String() string {
	return [...]string{"BOOLEAN", "INT32", "INT64", "DOUBLE", "BYTE_ARRAY"}[k]
}

// valueWidth returns the size of an encoded value in bytes; 0 for texts.
func (k Kind) valueWidth() int { return [...]int{1, 4, 8, 8, 0}[k] }

// physicalType returns the type of the format that k is.
func (k Kind) physicalType() format.Type {
	return [...]format.Type{format.Boolean, format.Int32, format.Int64, format.Double, format.ByteArray}[k]
}

// Column is a column of a file.
type Column struct {
	Name     string
	Kind     Kind
	Optional bool // a row may have no value
	List     bool // a row has any number of values
	Delta    bool // an Int64 is written as the difference to the one before
	Snappy   bool // its pages are compressed
}

// valueEncoding returns how the values of c are written.
func (c *Column) valueEncoding() format.Encoding {
	switch {
	case c.Delta:
		return format.DeltaBinaryPacked
	case c.Kind == Text:
		return format.DeltaLengthByteArray
	}
	return format.Plain
}

// hasLevels reports whether c says of each value whether it is there.
func (c *Column) hasLevels() bool { return c.Optional || c.List }

// schemaElement returns what the schema of a file says of c.
func (c *Column) schemaElement() format.SchemaElement {
	e := format.SchemaElement{Name: c.Name, Type: thrift.New(c.Kind.physicalType()), RepetitionType: thrift.New(format.Required)}
	switch {
	case c.Optional:
		e.RepetitionType.Set(format.Optional)
	case c.List:
		e.RepetitionType.Set(format.Repeated)
	}
	integer := func(bits int8, name deprecated.ConvertedType) {
		e.ConvertedType, e.LogicalType.Value = thrift.New(name), &format.IntType{BitWidth: bits, IsSigned: true}
	}
	switch c.Kind {
	case Bool:
		e.TypeLength.Set(1)
	case Int32:
		e.TypeLength.Set(32)
		integer(32, deprecated.Int32)
	case Int64:
		e.TypeLength.Set(64)
		integer(64, deprecated.Int64)
	case Double:
		e.TypeLength.Set(64)
	case Text:
		e.ConvertedType, e.LogicalType.Value = thrift.New(deprecated.UTF8), &format.StringType{}
	}
	return e
}
