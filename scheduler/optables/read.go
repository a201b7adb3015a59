package optables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/scheduler/optables/wheel"
)

// Steps of latencies, as shares: of files with merged tables, and of an engine's own.
const (
	mergedStep = 0.002
	ownStep    = 0.0004
)

// Read returns the tables of a GPU in a directory with the layout of the wheel, merged over the engines and guarded.
func Read(dir, gpu string) (*Tables, error) {
	t, _, err := ReadGuarded(dir, gpu, Load)
	if err != nil {
		return nil, err
	}
	s, err := findSystem(gpu)
	if err != nil {
		return nil, err
	}
	return t.borrow(s)
}

// ReadGuarded reads as Read, and also returns what it left out and changed. Tables of an older GPU come from older.
func ReadGuarded(dir, gpu string, older func(gpu string) (*Tables, error)) (*Tables, *Report, error) {
	s, err := findSystem(gpu)
	if err != nil {
		return nil, nil, err
	}
	w, err := wheel.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	d, err := newDraft(w, s)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range []Engine{VLLM, SGLang, TRTLLM} {
		if err := d.readEngine(e); err != nil {
			return nil, nil, err
		}
	}
	if err := d.readCollectives(); err != nil {
		return nil, nil, err
	}
	d.merge()
	for place := range d.tables {
		d.guardBatch(place)
		for _, name := range s.older {
			t, err := older(name)
			if err != nil {
				return nil, nil, err
			}
			d.guardGeneration(place, t)
		}
		d.guardBatch(place)
	}
	t, err := d.build(mergedStep)
	return t, &d.report, err
}

// ReadOwn returns the tables of one engine in a directory with the layout of the wheel, with all of its rows unchanged.
func ReadOwn(dir, gpu string, e Engine) (*Tables, error) {
	s, err := findSystem(gpu)
	if err != nil {
		return nil, err
	}
	w, err := wheel.Open(dir)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	d, err := newDraft(w, s)
	if err != nil {
		return nil, err
	}
	if err := d.readEngine(e); err != nil {
		return nil, err
	}
	if err := d.readCollectives(); err != nil {
		return nil, err
	}
	d.merge()
	return d.build(ownStep)
}

// Report counts the kept and rejected rows of a GPU.
type Report struct {
	Name     string                       `json:"name"`
	System   string                       `json:"system"` // in the wheel
	Releases map[string]string            `json:"releases"`
	Older    map[string]map[string]string `json:"older_releases,omitempty"` // of tables that an engine's current release lacks
	Read     int                          `json:"rows_read"`
	Kept     int                          `json:"rows_kept"`
	Dropped  Counts                       `json:"rows_dropped"`
	Changed  Counts                       `json:"rows_changed"`
	Bytes    int                          `json:"bytes"`
	Faults   []Fault                      `json:"-"`
}

// Fault is a row that was dropped or changed since it cannot be true.
type Fault struct {
	File   string
	Shape  string
	Reason string
	Was    float64 // ms
	Is     float64 // ms; 0: dropped
}

// Counts is a number of rows by reason, in the order of the reasons.
type Counts []Count

// Count is the number of rows with a reason.
type Count struct {
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
}

// add counts n more rows with a reason.
func (c *Counts) add(reason string, n int) {
	i, found := slices.BinarySearchFunc(*c, reason, func(c Count, reason string) int { return strings.Compare(c.Reason, reason) })
	if !found {
		*c = slices.Insert(*c, i, Count{Reason: reason})
	}
	(*c)[i].Rows += n
}

// draft is the tables of a GPU while they are read.
type draft struct {
	wheel  *wheel.Wheel
	system system
	sheet  Sheet
	nccl   string // the release of NCCL in the data sheet
	words  []string
	places map[string]int32 // of words
	files  []string
	tables [tableCount][]row
	report Report
}

func newDraft(w *wheel.Wheel, s system) (*draft, error) {
	y, err := w.System(s.name)
	if err != nil {
		return nil, err
	}
	return &draft{
		wheel: w, system: s, nccl: y.Misc.NCCL, places: map[string]int32{},
		sheet: Sheet{
			Bandwidth: y.GPU.Bandwidth, BF16: y.GPU.BF16, FP8: y.GPU.FP8, FP4: y.GPU.FP4, SM: y.GPU.SM,
			NodeGPUs: y.Node.GPUs, RackGPUs: y.Node.Rack, IntraNode: y.Node.Intra, InterNode: y.Node.Inter, InterRack: y.Node.InterRack,
			P2P: y.Node.P2P, Scale: y.GPU.Scale, Latency: y.GPU.Latency,
		},
		report: Report{
			Name: s.gpu, System: s.name, Releases: map[string]string{}, Older: map[string]map[string]string{}, Dropped: Counts{}, Changed: Counts{},
		},
	}, nil
}

func (d *draft) word(s string) int32 {
	i, ok := d.places[s]
	if !ok {
		i = int32(len(d.words))
		d.words, d.places[s] = append(d.words, s), i
	}
	return i
}

// readEngine reads all tables of an engine.
func (d *draft) readEngine(e Engine) error {
	current := d.wheel.Current(d.system.name, e.String())
	for _, l := range listLayouts() {
		name, release := d.wheel.Find(d.system.name, l.family, e.String(), l.file+".parquet")
		if name == "" {
			continue
		}
		if d.report.Releases[e.String()] == "" || release == current {
			d.report.Releases[e.String()] = release
		}
		if current != "" && release != current {
			if d.report.Older[e.String()] == nil {
				d.report.Older[e.String()] = map[string]string{}
			}
			d.report.Older[e.String()][l.file] = release
		}
		kernel := d.wheel.Kernel(e.String(), release, d.sheet.SM)
		if err := d.readTable(&l, name, e.String(), kernel); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// readCollectives reads the table of NCCL.
func (d *draft) readCollectives() error {
	name, release := d.wheel.FindCollectives(d.system.name, d.nccl)
	if name == "" {
		return nil
	}
	d.report.Releases["nccl"] = release
	l := collectiveLayout()
	if err := d.readTable(&l, name, "", ""); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readTable reads one table. Of rows with the same key the first one counts, for attention that of the default kernel,
// then that of the kernel with the most rows.
func (d *draft) readTable(l *layout, name, engine, kernel string) error {
	t, err := d.wheel.Table(name)
	if err != nil {
		return err
	}
	c, err := l.read(t)
	if err != nil {
		return err
	}
	d.report.Read += t.Rows()
	d.files = append(d.files, name)
	all, err := d.rows(l, c, rowsOf{engine, int32(len(d.files) - 1)})
	if err != nil {
		return err
	}
	if l.family == "attention" {
		orderKernels(all, kernel)
	}
	stable.Sort(all, compareRows)
	n := len(all)
	all = slices.CompactFunc(all, sameRow)
	d.report.Dropped.add("a repeated shape", n-len(all))
	if l.place == gemmTable {
		d.raise(all)
	}
	d.tables[l.place] = append(d.tables[l.place], all...)
	return nil
}

// orderKernels puts the rows of the default kernel first, then those of kernels by their number of rows.
func orderKernels(all []row, kernel string) {
	count := map[string]int{}
	for i := range all {
		count[all[i].kernel]++
	}
	stable.Sort(all, func(a, b row) int {
		if a.kernel == b.kernel {
			return 0
		}
		switch kernel {
		case a.kernel:
			return -1
		case b.kernel:
			return 1
		}
		if c := count[b.kernel] - count[a.kernel]; c != 0 {
			return c
		}
		return strings.Compare(a.kernel, b.kernel)
	})
}

func compareRows(a, b row) int {
	if c := slices.Compare(a.key[:], b.key[:]); c != 0 {
		return c
	}
	return int(a.axis) - int(b.axis)
}

func sameRow(a, b row) bool { return a.key == b.key && a.axis == b.axis }

// raise brings products that are faster than the data sheet allows to the speed of light.
func (d *draft) raise(all []row) {
	for i := range all {
		r := &all[i]
		least := boundGEMM(&d.sheet, d.words[r.key[0]], [3]int{int(r.axis), int(r.key[1]), int(r.key[2])})
		if r.ms < least {
			d.change(gemmTable, r, "faster than the data sheet", least)
		}
	}
}
