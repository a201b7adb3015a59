package policy

import "testing"

// TestBlakeHash compares hashes with the published test vectors. Byte i of an input is i mod 251.
func TestBlakeHash(t *testing.T) {
	for _, x := range []struct {
		bytes int
		hash  uint64
	}{
		{0, 0xa6a1f9f5b94913af}, {1, 0xf1611bf1dfde3a2d}, {63, 0x83adda94a537bce9}, {64, 0xd45c4aea4171ed4e}, {65, 0x6ddf70bea05f1ede}, {1023, 0xb93edaee70891010},
		{1024, 0x6a495f039472142}, {1025, 0xb327eb47ae7802d0}, {2048, 0x2ad27c8c02b676e7}, {2049, 0x825f7a0df4724d5f}, {5121, 0x4a690420cbd28b62}, {31744, 0xc1bc441a0e96b662},
	} {
		text := make([]byte, x.bytes)
		for i := range text {
			text[i] = byte(i % 251)
		}
		if got := blakeHash(string(text)); got != x.hash {
			t.Errorf("%d bytes have the hash %#x, must be %#x", x.bytes, got, x.hash)
		}
	}
}
