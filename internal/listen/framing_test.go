package listen

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A request with both headers is rejected and its connection closed. The server also rejects such a request if it
// follows other requests on the connection or in one write. A request is accepted if only its body contains such
// headers.
func TestStrictFraming(t *testing.T) {
	t.Parallel()
	l, err := Open("test", "127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})}
	defer server.Close()
	go func() { _ = server.Serve(StrictFraming(server, l, http.DefaultMaxHeaderBytes)) }()

	const (
		head    = "POST / HTTP/1.1\r\nHost: x\r\n"
		plain   = head + "Content-Length: 2\r\n\r\nok"
		chunked = head + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
		both    = head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
		swapped = head + "transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n"
	)
	const fake = "POST / HTTP/1.1 \r\n\r\n"
	long := head + "Transfer-Encoding: chunked\r\n\r\n2000\r\n" + strings.Repeat("x", 0x2000) + "\r\n0\r\n\r\n"
	body := head + "Transfer-Encoding: chunked\r\n\r\n15\r\n\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"
	for _, writes := range [][]string{
		{both}, {swapped}, {plain, both}, {chunked, swapped}, {plain + both}, {chunked + chunked + both}, {long, both}, {long + both}, {chunked + both + fake},
		{both + fake}, {plain, both + fake}, {head, "Content-Length: 5\r\nTransfer-Enc", "oding: chunked\r\n\r\n0\r\n\r\n"}, {plain, plain, chunked}, {long, chunked}, {body, chunked},
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(writes, "")
		rejects := strings.Contains(strings.ToLower(all), "content-length: 5\r\ntransfer") || strings.Contains(all, "chunked\r\ncontent-length: 5")
		next := make(chan struct{}, len(writes))
		next <- struct{}{}
		go func() {
			for _, w := range writes {
				if strings.HasPrefix(w, "POST") {
					<-next
				}
				_, _ = io.WriteString(c, w)
			}
		}()
		from := bufio.NewReader(c)
		n := strings.Count(all, head)
		for i := range n {
			a, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatalf("%.200q: request %d: %v", all, i, err)
			}
			if _, err := io.Copy(io.Discard, a.Body); err != nil {
				t.Fatal(err)
			}
			bad := a.StatusCode == http.StatusBadRequest
			if bad != a.Close || bad && !rejects || rejects && !bad && i == n-1 || bad && len(writes) > 1 && i < n-1 {
				t.Errorf("%.200q: request %d: %d, closes: %v", all, i, a.StatusCode, a.Close)
			}
			if bad {
				break
			}
			if len(writes) > 1 {
				next <- struct{}{}
			}
		}
		if rejects {
			if _, err := from.ReadByte(); err == nil {
				t.Errorf("%.200q: the connection is open", all)
			}
		}
		c.Close()
	}
}
