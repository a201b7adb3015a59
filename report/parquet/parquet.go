// Package parquet writes and reads the Parquet files of a run: flat columns, which may be optional or contain lists.
//
// Package parquet uses the encodings, the metadata and the Thrift of parquet-go, but not its package of rows and
// schemas. That package imports Protocol Buffers, geometry and, through Brotli, a web server, which every command
// would initialise at its start. Tests check that the files of package parquet and of parquet-go are equal, byte for
// byte.
//
// Read parquet.go, then values.go, chunk.go and write.go; read.go, and rows.go for files of structs.
package parquet

import (
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Kind is the type of a column's values.
type Kind = format.Type

const (
	Bool   = format.Boolean
	Int32  = format.Int32
	Int64  = format.Int64
	Double = format.Double
	Text   = format.ByteArray
)

// Column is a column of a file.
type Column struct {
	Name     string
	Kind     Kind
	Optional bool // a row may have no value
	List     bool // a row has any number of values
	Delta    bool // an Int64 is written as the difference to the one before
	Snappy   bool // its pages are compressed
}

// valueWidth returns the size of an encoded value in bytes; 0 for strings.
func (c *Column) valueWidth() int {
	switch c.Kind {
	case Bool:
		return 1
	case Int32:
		return 4
	case Int64, Double:
		return 8
	}
	return 0
}

// valueEncoding returns the encoding of the values of c.
func (c *Column) valueEncoding() format.Encoding {
	switch {
	case c.Delta:
		return format.DeltaBinaryPacked
	case c.Kind == Text:
		return format.DeltaLengthByteArray
	}
	return format.Plain
}

// hasLevels reports whether c stores for each row whether it has a value.
func (c *Column) hasLevels() bool { return c.Optional || c.List }

// schemaElement returns the entry of c in the schema of a file.
func (c *Column) schemaElement() format.SchemaElement {
	e := format.SchemaElement{Name: c.Name, Type: thrift.New(c.Kind), RepetitionType: thrift.New(format.Required)}
	switch {
	case c.Optional:
		e.RepetitionType.Set(format.Optional)
	case c.List:
		e.RepetitionType.Set(format.Repeated)
	}
	switch c.Kind {
	case Bool:
		e.TypeLength.Set(1)
	case Text:
		e.ConvertedType, e.LogicalType.Value = thrift.New(deprecated.UTF8), &format.StringType{}
	default:
		e.TypeLength.Set(int32(8 * c.valueWidth()))
	}
	switch c.Kind {
	case Int32:
		e.ConvertedType, e.LogicalType.Value = thrift.New(deprecated.Int32), &format.IntType{BitWidth: 32, IsSigned: true}
	case Int64:
		e.ConvertedType, e.LogicalType.Value = thrift.New(deprecated.Int64), &format.IntType{BitWidth: 64, IsSigned: true}
	}
	return e
}
