package listen

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// through is a wrapper with a method Through, and opaque is a wrapper without this method.
type through struct{ http.ResponseWriter }

func (w through) Through() http.ResponseWriter { return w.ResponseWriter }

type opaque struct{ http.ResponseWriter }

// Chunks written to the connection are sent in order with the chunks of net/http, and the connection can be reused.
// ChunkConn returns nil for an answer without chunks and for an opaque writer.
func TestChunks(t *testing.T) {
	t.Parallel()
	l, err := Open("test", "127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	direct := make(chan bool, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w).Flush
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", "8")
		case "/opaque":
			w = opaque{w}
		default:
			w = through{w}
		}
		write := func(text string) {
			_, _ = io.WriteString(w, text)
			_ = flush()
		}
		write("one ")
		c := ChunkConn(w, r)
		direct <- c != nil
		if c == nil {
			write("two ")
			return
		}
		if err := WriteChunk(c, append(make([]byte, ChunkRoom), "two "...)); err != nil {
			t.Error(err)
		}
		if err := WriteChunk(c, append(make([]byte, ChunkRoom), strings.Repeat("x", 5000)...)); err != nil {
			t.Error(err)
		}
		write("last")
	})}
	defer server.Close()
	go func() { _ = server.Serve(StrictFraming(server, l, http.DefaultMaxHeaderBytes)) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	from := bufio.NewReader(c)
	long := "one two " + strings.Repeat("x", 5000) + "last"
	for _, test := range []struct {
		request string
		direct  bool
		want    string
	}{
		{"GET /a HTTP/1.1", true, long}, {"GET /length HTTP/1.1", false, "one two "}, {"GET /opaque HTTP/1.1", false, "one two "},
		{"GET /b HTTP/1.1", true, long}, {"GET /old HTTP/1.0", false, "one two "},
	} {
		if _, err := io.WriteString(c, test.request+"\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %d bytes, %v, want %d", test.request, len(got), err, len(test.want))
		}
		if got := <-direct; got != test.direct {
			t.Errorf("%s: has a connection: %v, want %v", test.request, got, test.direct)
		}
	}
}
