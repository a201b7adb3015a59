package optables

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every GPU has a file, and encoding its tables again gives the same bytes.
func TestFilesRoundTrip(t *testing.T) {
	total := 0
	for _, name := range Names() {
		text, err := files.ReadFile("systems/" + name + Extension)
		if err != nil {
			t.Fatal(err)
		}
		tables, err := Open(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if tables.Name() != name {
			t.Errorf("%s: the file is of %s", name, tables.Name())
		}
		var base *Tables
		if of := BaseOf(name); of != "" {
			if base, err = Open(readFile(t, of)); err != nil {
				t.Fatal(err)
			}
		}
		again, err := tables.Encode(base)
		if err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s: encoded again %d bytes, want the %d of the file: %v", name, len(again), len(text), err)
		}
		total += len(text)
	}
	if total > 6<<20 {
		t.Errorf("%d bytes of operator times, want at most %d", total, 6<<20)
	}
}

// The provenance names every file and counts its rows.
func TestProvenance(t *testing.T) {
	o, err := Provenance()
	if err != nil {
		t.Fatal(err)
	}
	if len(o.GPUs) != len(Names()) || o.License != "Apache-2.0" || o.Release == "" {
		t.Fatalf("got %d GPUs, license %q, release %q", len(o.GPUs), o.License, o.Release)
	}
	for i := range o.GPUs {
		g := &o.GPUs[i]
		tables, err := Open(readFile(t, g.Name))
		if err != nil {
			t.Fatal(err)
		}
		dropped := 0
		for _, c := range g.Dropped {
			dropped += c.Rows
		}
		if g.Read != g.Kept+dropped || g.Kept != tables.Rows() {
			t.Errorf("%s: %d rows read, %d kept, %d dropped, %d in the file", g.Name, g.Read, g.Kept, dropped, tables.Rows())
		}
		if g.Bytes != len(readFile(t, g.Name)) {
			t.Errorf("%s: %d bytes, the file has %d", g.Name, g.Bytes, len(readFile(t, g.Name)))
		}
	}
}

func readFile(t testing.TB, gpu string) []byte {
	t.Helper()
	text, err := files.ReadFile("systems/" + gpu + Extension)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The latency of a code differs from the original latency by at most half a step.
func TestCodesAreWithinHalfAStep(t *testing.T) {
	for _, step := range []float64{mergedStep, ownStep} {
		powers := listPowers(step, 20000)
		for ms := 1.7e-3; ms < 30; ms *= 1.0137 {
			c, err := codeOf(ms, step)
			if err != nil {
				t.Fatal(err)
			}
			if int(c) < len(powers) && math.Abs(powers[c]/ms-1) > step/2*1.01 {
				t.Fatalf("%v ms becomes %v by steps of %v", ms, powers[c], step)
			}
		}
	}
}

// Damaged files cause errors. Damaged files neither cause a panic nor use more memory than the largest valid file.
func FuzzOpen(f *testing.F) {
	f.Add(readFile(f, "l4"))
	f.Add(readFile(f, "a100")[:4096])
	f.Add(append([]byte(signature), 0xff, 0xff, 0xff, 0xff, 0x7f))
	f.Fuzz(func(t *testing.T, file []byte) {
		tables, err := Open(file)
		if err != nil {
			return
		}
		lookUp(tables)
	})
}

// Damage inside the compressed tables is detected, or changes times.
func TestDamagedTables(t *testing.T) {
	tables := openExtract(t, "gb300-sglang")
	draw := rand.New(rand.NewPCG(1, 2))
	for place := range tables.tables {
		low, high := tables.table(place).encode().low, tables.table(place).encode().high
		for range 60 {
			damaged := [2][]byte{slices.Clone(low), slices.Clone(high)}
			for range 1 + draw.IntN(3) {
				part := damaged[draw.IntN(2)]
				part[draw.IntN(min(len(part), 3000))] = byte(draw.IntN(256))
			}
			readTable(tables, place, damaged[0], damaged[1])
		}
	}
}

func FuzzTable(f *testing.F) {
	tables, err := Load("a100")
	if err != nil {
		f.Fatal(err)
	}
	for _, i := range []int{productTable, allReduceTable, collectiveTable} {
		n := tables.table(i).encode()
		f.Add(i, n.low, n.high)
	}
	f.Add(0, []byte{0}, binary.AppendUvarint(nil, 1<<40))
	f.Fuzz(func(t *testing.T, place int, low, high []byte) {
		readTable(tables, (place%tableCount+tableCount)%tableCount, low, high)
	})
}

// readTable parses one table, and looks up times in tables that are empty except for it.
func readTable(tables *Tables, place int, low, high []byte) {
	forms := listForms()
	broken := Tables{header: tables.header}
	for i := range broken.tables {
		broken.tables[i] = &table{form: &forms[i]}
	}
	at := broken.tables[place]
	at.text = &numbers{low, high}
	if broken.table(place).failed {
		lookUp(&broken)
		return
	}
	broken.latency = listPowers(mergedStep, int(slices.Max(append(at.codes, 0)))+1)
	lookUp(&broken)
}

// lookUp looks up one time of each operator.
func lookUp(t *Tables) []Time {
	a := Attention{Heads: 16, KVHeads: 2, HeadSize: 128, KV: "bfloat16"}
	l := Latent{Heads: 32, Type: "bfloat16", KV: "bfloat16", GEMM: "bfloat16"}
	x := Experts{"fp8_block", 7168, 2048, 8, 256, 8, 1, "power_law_1.01"}
	all := []Time{
		t.GEMM("bfloat16", 37, 8192, 2048), t.GEMM("fp8", 37, 1234, 5678), t.Context(a, 1, 500, 1000), t.Generation(a, 8, 1000),
		t.LatentContext(l, 1, 500, 1000), t.LatentGeneration(l, 8, 1000), t.LatentProduct("bfloat16", true, 8, 16),
		t.Experts(VLLM, x, 64), t.AllReduce(VLLM, 4, 1e6), t.AllReduce(SGLang, 16, 1e6), t.Collective("all_gather", 8, 1e5),
	}
	for _, context := range []bool{false, true} {
		if block, ok := t.LatentModule(l, context, 8, 1000, 0); ok {
			all = append(all, block)
		}
	}
	return all
}

// Every GPU has a time for every operator, even without measurements.
func TestEveryLookupHasATime(t *testing.T) {
	for _, name := range Names() {
		tables, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, found := range lookUp(tables) {
			if !(found.Ms > 0) || math.IsInf(found.Ms, 1) {
				t.Errorf("%s: lookup %d: %v ms", name, i, found.Ms)
			}
			if tables.Donor() && found.Source != Filled {
				t.Errorf("%s: lookup %d: %v, want filled, since the GPU was not measured", name, i, found.Source)
			}
		}
	}
}

// After the tables are loaded, lookups allocate no memory.
func TestLookupsAllocateNothing(t *testing.T) {
	tables, err := Load("h100")
	if err != nil {
		t.Fatal(err)
	}
	a := Attention{Heads: 16, KVHeads: 2, HeadSize: 128, KV: "bfloat16"}
	n := testing.AllocsPerRun(100, func() {
		tables.GEMM("bfloat16", 37, 7168, 8192)
		tables.Context(a, 1, 500, 1000)
		tables.Generation(a, 8, 1000)
		tables.Experts(VLLM, Experts{"fp8_block", 7168, 2048, 8, 256, 8, 1, "power_law_1.01"}, 64)
		tables.AllReduce(VLLM, 4, 1e6)
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// In all tables of all GPUs, times do not decrease when the batch grows.
func TestTimesRiseWithTheBatch(t *testing.T) {
	for _, name := range Names() {
		tables, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for place := range tables.tables {
			column, ok := batchOf(place)
			if !ok {
				continue
			}
			at := tables.table(place)
			most := map[[2]key]uint16{} // code of the previous batch, by shape without the batch
			for i := range at.keys {
				c := tables.curve(at, i)
				if column < 0 {
					if !slices.IsSorted(c.codes) {
						t.Fatalf("%s: %s %v: a time is less than that of the smaller batch", name, at.form.name, at.keys[i])
					}
					continue
				}
				for j, code := range c.codes {
					shape := [2]key{at.keys[i], {c.axis[j]}}
					shape[0][column] = 0
					if code < most[shape] {
						t.Fatalf("%s: %s %v at %d: %v ms, less than the smaller batch", name, at.form.name, at.keys[i], c.axis[j], c.ms(j))
					}
					most[shape] = code
				}
			}
		}
	}
}

// No measurement of a GPU is slower than the same measurement of an older GPU.
func TestNewerGPUsAreFaster(t *testing.T) {
	for _, s := range listSystems() {
		for _, name := range s.older {
			compared := compareGenerations(t, s.gpu, name)
			if compared < 20000 {
				t.Errorf("%s and %s: %d shapes compared, want at least 20000", s.gpu, name, compared)
			}
		}
	}
}

func compareGenerations(t *testing.T, newer, older string) (compared int) {
	a, err := Load(newer)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Load(older)
	if err != nil {
		t.Fatal(err)
	}
	for place := range a.tables {
		if place == allReduceTable || place == collectiveTable {
			continue
		}
		x, y := a.table(place), b.table(place)
		words := make([]int32, len(x.words))
		for i, w := range x.words {
			if at, ok := y.word(w); ok {
				words[i] = at
			} else {
				words[i] = -1
			}
		}
		for i := range x.keys {
			at := y.same(x.keys[i], words)
			if at < 0 {
				continue
			}
			c, d := a.curve(x, i), b.curve(y, at)
			for j, v := range c.axis {
				if k := lowerBound(d.axis, int(v)); k < len(d.axis) && d.axis[k] == v {
					if compared++; c.codes[j] > d.codes[k]+1 {
						t.Fatalf("%s %s %v at %d: %v ms, %s has %v", newer, x.form.name, x.keys[i], v, c.ms(j), older, d.ms(k))
					}
				}
			}
		}
	}
	return compared
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load("b200"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	t, err := Load("h100")
	if err != nil {
		b.Fatal(err)
	}
	a := Attention{Heads: 16, KVHeads: 2, HeadSize: 128, KV: "bfloat16"}
	for name, look := range map[string]func(){
		"site":       func() { t.GEMM("bfloat16", 37, 7168, 8192) },
		"other":      func() { t.GEMM("bfloat16", 37, 14336, 8192) },
		"generation": func() { t.Generation(a, 37, 3000) },
		"outside":    func() { t.Generation(a, 700, 90000) },
		"context":    func() { t.Context(a, 1, 500, 1000) },
		"experts":    func() { t.Experts(VLLM, Experts{"fp8_block", 7168, 2048, 8, 256, 8, 1, "power_law_1.01"}, 64) },
		"similar":    func() { t.Experts(VLLM, Experts{"fp8_block", 7000, 2048, 8, 256, 8, 1, "power_law_1.01"}, 64) },
		"allreduce":  func() { t.AllReduce(VLLM, 4, 1e6) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				look()
			}
		})
	}
}
