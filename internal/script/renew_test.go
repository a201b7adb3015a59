package script

import "testing"

func TestRenew(t *testing.T) {
	for _, c := range []struct {
		shown, got, want string
		ok               bool
	}{
		{"TTFT  12.5\n", "TTFT   9.75\nTPOT  3\n", "TTFT   9.75\nTPOT  3\n", true},
		{"TTFT  12.5\n\n", "TTFT   9.75\n", "TTFT   9.75\n\n", true},
		{"...\nTPOT  12.5 ms\n...\n", "TTFT  1\nTPOT   -3 ms\nITL  2\n", "...\nTPOT   -3 ms\n...\n", true},
		{"TPOT 1\n...\n", "ITL 1\n", "TPOT 1\n...\n", false},
	} {
		if got, ok := Renew(c.shown, c.got); got != c.want || ok != c.ok {
			t.Errorf("Renew(%q, %q) = %q, %v, want %q, %v", c.shown, c.got, got, ok, c.want, c.ok)
		}
	}
}
