package frames

import "encoding/binary"

// table is a table of a flatbuffer, the encoding of Arrow's metadata. Values outside of the buffer are read as 0 or
// empty.
type table struct {
	b  []byte
	at int
}

// rootOf returns the root table of a buffer.
func rootOf(b []byte) table { return table{b, 0}.follow(0) }

// u16, i32 and i64 return the number at an offset.
func (t table) u16(at int) int {
	if at < 0 || at > len(t.b)-2 {
		return 0
	}
	return int(binary.LittleEndian.Uint16(t.b[at:]))
}

func (t table) i32(at int) int {
	if at < 0 || at > len(t.b)-4 {
		return 0
	}
	return int(int32(binary.LittleEndian.Uint32(t.b[at:])))
}

func (t table) i64(at int) int64 {
	if at < 0 || at > len(t.b)-8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(t.b[at:]))
}

// follow returns the table at an indirect offset.
func (t table) follow(at int) table { return table{t.b, at + t.i32(at)} }

// slot returns the offset of field n. slot returns -1 if the field is absent.
func (t table) slot(n int) int {
	names := t.at - t.i32(t.at)
	if entry := 4 + 2*n; t.at > 0 && entry+2 <= t.u16(names) {
		if off := t.u16(names + entry); off > 0 {
			return t.at + off
		}
	}
	return -1
}

// byteOf returns the value of a field of one byte.
func (t table) byteOf(n int) byte {
	if at := t.slot(n); at >= 0 && at < len(t.b) {
		return t.b[at]
	}
	return 0
}

// has reports whether field n is present.
func (t table) has(n int) bool { return t.slot(n) >= 0 }

// short, whole and long return the value of a field with 16, 32 or 64 bits.
func (t table) short(n int) int  { return t.u16(t.slot(n)) }
func (t table) whole(n int) int  { return t.i32(t.slot(n)) }
func (t table) long(n int) int64 { return t.i64(t.slot(n)) }

// inner returns the table in field n.
func (t table) inner(n int) table {
	at := t.slot(n)
	if at < 0 {
		return table{}
	}
	return t.follow(at)
}

// list returns the offset and the number of the entries in field n. size is the size of an entry in bytes.
func (t table) list(n, size int) (from, count int) {
	at := t.slot(n)
	if at < 0 {
		return 0, 0
	}
	at += t.i32(at)
	from, count = at+4, t.i32(at)
	if at < 0 || count < 0 || count > (len(t.b)-from)/size {
		return 0, 0
	}
	return from, count
}

// text returns the string in field n.
func (t table) text(n int) string {
	from, count := t.list(n, 1)
	return string(t.b[from : from+count])
}
