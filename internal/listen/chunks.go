package listen

import (
	"net"
	"net/http"
	"strconv"
)

// ChunkRoom is the number of bytes before the data of a chunk that WriteChunk fills.
const ChunkRoom = 10

// ChunkConn returns the connection of a request, to which chunks of the answer can be written without the buffers of
// net/http; nil: all goes through w. The header was flushed through w. The server has StrictFraming. Writers around that of
// net/http change nothing if they have a method Through, which returns the inner writer.
func ChunkConn(w http.ResponseWriter, r *http.Request) net.Conn {
	for {
		t, ok := w.(interface{ Through() http.ResponseWriter })
		if !ok {
			break
		}
		w = t.Through()
	}
	_, own := w.(http.Hijacker) // of net/http, for HTTP/1
	c, known := r.Context().Value(connKey{}).(*headConn)
	h := w.Header()
	if !own || !known || !r.ProtoAtLeast(1, 1) || r.Method == http.MethodHead || h.Get("Content-Length") != "" || h.Get("Transfer-Encoding") != "" {
		return nil
	}
	return c.Conn
}

// WriteChunk writes a chunk: the bytes of b behind ChunkRoom, which are at least one. It may change b. The connection is
// closed after an error.
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
