package drt

import (
	"bufio"
	"bytes"
	"testing"
)

// Any bytes are parsed as requests without a crash. An encoded request is decoded unchanged.
func FuzzTCPRequest(f *testing.F) {
	good, err := appendTCPRequest(nil, "1f/generate", message{headers: map[string]string{"request-id": "r"}, frame: []byte("frame")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{0, 1, 'x', 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 12
		path, m, err := readTCPRequest(bufio.NewReader(bytes.NewReader(b)), limit)
		if err != nil {
			return
		}
		if len(m.frame) > limit || len(path)+len(m.frame) > len(b) {
			t.Fatalf("%d and %d bytes out of %d", len(path), len(m.frame), len(b))
		}
		again, err := appendTCPRequest(nil, path, m)
		if err != nil {
			t.Fatal(err)
		}
		path2, m2, err := readTCPRequest(bufio.NewReader(bytes.NewReader(again)), limit)
		if err != nil || path2 != path || !bytes.Equal(m2.frame, m.frame) || len(m2.headers) != len(m.headers) {
			t.Fatalf("%q %v became %q %v: %v", path, m, path2, m2, err)
		}
	})
}
