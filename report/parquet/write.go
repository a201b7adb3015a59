package parquet

import (
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// magic begins and ends a file.
const magic = "PAR1"

// Options set how a file is written.
type Options struct {
	Name       string // of its schema
	PageBytes  int    // approximate size of a page; 0: 256 KiB
	Statistics bool   // write the bounds of each page
}

// Writer writes a file, one row group after the other.
type Writer struct {
	out     io.Writer
	at      int64
	chunks  []Chunk
	meta    format.FileMetaData
	indexes []format.ColumnIndex
	offsets []format.OffsetIndex
}

// NewWriter returns a writer of a file of the columns.
func NewWriter(out io.Writer, columns []Column, o Options) *Writer {
	if o.PageBytes == 0 {
		o.PageBytes = 256 << 10
	}
	w := &Writer{out: out, chunks: make([]Chunk, len(columns))}
	w.meta = format.FileMetaData{Version: 2, CreatedBy: "replay version 1(build parquet-go)", KeyValueMetadata: thrift.Slice[format.KeyValue]{}}
	w.meta.Schema = append(w.meta.Schema, format.SchemaElement{Name: o.Name, NumChildren: thrift.New(int32(len(columns)))})
	for i, column := range columns {
		w.meta.Schema = append(w.meta.Schema, column.schemaElement())
		w.meta.ColumnOrders = append(w.meta.ColumnOrders, format.ColumnOrder{Value: &format.TypeDefinedOrder{}})
		w.chunks[i] = Chunk{Values: Values{column: &columns[i]}, full: int(float64(o.PageBytes) * 0.98), statistics: o.Statistics}
		w.chunks[i].resetGroup()
	}
	return w
}

// Chunk returns the i-th column of the current row group.
func (w *Writer) Chunk(i int) *Chunk { return &w.chunks[i] }

// FillGroup adds rows to the row group column by column, several columns in parallel. A page has at least batch rows.
// The file does not depend on the number of goroutines.
func FillGroup[T any](w *Writer, rows []T, batch int, add func(to *Chunk, column int, rows []T)) error {
	var filled errgroup.Group
	atOnce := min(runtime.GOMAXPROCS(0), len(w.chunks))
	for first := range atOnce {
		filled.Go(func() error {
			for part := range slices.Chunk(rows, batch) { // small parts stay in the CPU cache
				for i := first; i < len(w.chunks); i += atOnce {
					add(&w.chunks[i], i, part)
					if err := w.chunks[i].EndBatch(); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return filled.Wait()
}

func (w *Writer) writeBytes(p []byte) error {
	n, err := w.out.Write(p)
	w.at += int64(n)
	return err
}

// writeEncoded writes v, and returns its offset and size.
func (w *Writer) writeEncoded(v any) (at int64, size int32, err error) {
	text, err := thrift.Marshal(new(thrift.CompactProtocol), v)
	if err != nil {
		return 0, 0, err
	}
	at = w.at
	return at, int32(len(text)), w.writeBytes(text)
}

// EndGroup writes the rows that were added to all chunks.
func (w *Writer) EndGroup() error {
	for i := range w.chunks {
		if err := w.chunks[i].endPage(); err != nil {
			return err
		}
	}
	if len(w.chunks) == 0 || w.chunks[0].totalRows == 0 {
		return nil
	}
	if err := w.beginFile(); err != nil {
		return err
	}
	group := format.RowGroup{NumRows: w.chunks[0].totalRows, FileOffset: w.at, Ordinal: int16(len(w.meta.RowGroups))}
	group.SortingColumns = thrift.Slice[format.SortingColumn]{} // present, and empty
	for i := range w.chunks {
		c := &w.chunks[i]
		c.meta.DataPageOffset = w.at
		for j := range c.offsets.PageLocations {
			c.offsets.PageLocations[j].Offset += w.at
		}
		for _, page := range c.pages {
			if err := w.writeBytes(page); err != nil {
				return err
			}
		}
		group.TotalByteSize += c.meta.TotalUncompressedSize
		group.TotalCompressedSize += c.meta.TotalCompressedSize
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: c.meta})
		c.setBoundaryOrder()
		w.indexes, w.offsets = append(w.indexes, c.index), append(w.offsets, c.offsets)
		c.resetGroup()
	}
	w.meta.NumRows += group.NumRows
	w.meta.RowGroups = append(w.meta.RowGroups, group)
	return nil
}

// beginFile writes the head of the file, before the first group.
func (w *Writer) beginFile() error {
	if w.at > 0 {
		return nil
	}
	return w.writeBytes([]byte(magic))
}

// Close ends the last row group and the file.
func (w *Writer) Close() error {
	if err := errors.Join(w.EndGroup(), w.beginFile()); err != nil {
		return err
	}
	columns := len(w.chunks)
	for i := range w.indexes {
		c := &w.meta.RowGroups[i/columns].Columns[i%columns]
		var err error
		if c.ColumnIndexOffset, c.ColumnIndexLength, err = w.writeEncoded(&w.indexes[i]); err != nil {
			return err
		}
	}
	for i := range w.offsets {
		c := &w.meta.RowGroups[i/columns].Columns[i%columns]
		var err error
		if c.OffsetIndexOffset, c.OffsetIndexLength, err = w.writeEncoded(&w.offsets[i]); err != nil {
			return err
		}
	}
	_, size, err := w.writeEncoded(&w.meta)
	if err != nil {
		return err
	}
	return w.writeBytes(append(binary.LittleEndian.AppendUint32(nil, uint32(size)), magic...))
}
