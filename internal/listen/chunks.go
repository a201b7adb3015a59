package listen

import (
	"net"
	"net/http"
	"strconv"
)

// ChunkRoom is the number of bytes that a caller of WriteChunk leaves free at the start of the buffer.
const ChunkRoom = 10

// ChunkConn returns the connection of a request, so that chunks can be written without the buffers of net/http.
// ChunkConn returns nil if the answer must be written through w.
//
// The caller has flushed the header through w, and the server uses StrictFraming. A wrapper of the net/http writer
// must have a method Through that returns the inner writer.
func ChunkConn(w http.ResponseWriter, r *http.Request) net.Conn {
	for {
		t, ok := w.(interface{ Through() http.ResponseWriter })
		if !ok {
			break
		}
		w = t.Through()
	}
	_, own := w.(http.Hijacker) // a net/http writer for HTTP/1
	c, known := r.Context().Value(connKey{}).(*headConn)
	h := w.Header()
	if !own || !known || !r.ProtoAtLeast(1, 1) || r.Method == http.MethodHead || h.Get("Content-Length") != "" || h.Get("Transfer-Encoding") != "" {
		return nil
	}
	return c.Conn
}

// WriteChunk writes b[ChunkRoom:] as one chunk of at least one byte. WriteChunk may change b. After an error
// WriteChunk closes the connection.
func WriteChunk(c net.Conn, b []byte) error {
	var digits [8]byte
	size := append(strconv.AppendUint(digits[:0], uint64(len(b)-ChunkRoom), 16), "\r\n"...)
	at := ChunkRoom - len(size)
	copy(b[at:], size)
	_, err := c.Write(append(b, "\r\n"...)[at:])
	if err != nil {
		c.Close()
	}
	return err
}
