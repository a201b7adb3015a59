package reference_test

import (
	"math/rand/v2"
	"testing"
)

// FuzzPool draws engines with few spare blocks from fuzzed bytes, and compares them with their twins, which have a
// map as block pool.
func FuzzPool(f *testing.F) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, 40+20*seed)
		for i := range data {
			data[i] = byte(rng.IntN(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1000 {
			return
		}
		c := drawCase(rand.New(&dice{data: data, rest: rand.NewPCG(1, 2)}))
		if difference := c.run(make(map[string]int)); difference != "" {
			t.Errorf("%s\n%s", difference, c)
		}
	})
}

// dice is a random source that takes each value from one fuzzed byte. After the last byte dice returns random
// numbers.
type dice struct {
	data []byte
	rest *rand.PCG
}

func (d *dice) Uint64() uint64 {
	if len(d.data) == 0 {
		return d.rest.Uint64()
	}
	b := d.data[0]
	d.data = d.data[1:]
	return uint64(b) * 0x0101010101010101
}
