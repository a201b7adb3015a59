package optables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/scheduler/optables/wheel"
)

// Relative steps of latencies, for files with merged tables and for the tables of one engine.
const (
	mergedStep = 0.002
	ownStep    = 0.0004
)

// Read reads the tables of a GPU from a directory with the layout of the wheel. Read merges the engines and corrects
// invalid rows.
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

// ReadGuarded is Read with a report of the dropped and changed rows. The function older returns the tables of an
// older GPU.
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

// ReadOwn reads the tables of one engine from a directory with the layout of the wheel, with all of its rows
// unchanged.
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
	System   string                       `json:"system"` // name in the wheel
	Releases map[string]string            `json:"releases"`
	Older    map[string]map[string]string `json:"older_releases,omitempty"` // releases of tables that the engine's current release lacks
	Read     int                          `json:"rows_read"`
	Kept     int                          `json:"rows_kept"`
	Dropped  Counts                       `json:"rows_dropped"`
	Changed  Counts                       `json:"rows_changed"`
	Bytes    int                          `json:"bytes"`
	Faults   []Fault                      `json:"-"`
}

// Fault is a row that was dropped or changed because its latency is invalid.
type Fault struct {
	File   string
	Shape  string
	Reason string
	Was    float64 // ms
	Is     float64 // ms; 0: dropped
}

// Counts is a list of row counts, sorted by reason.
type Counts []Count

// Count is the number of rows that were dropped or changed for a reason.
type Count struct {
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
}

// add adds n to the count of a reason.
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
	nccl   string // NCCL release of the data sheet
	words  []string
	places map[string]int32 // indices in words
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

// readCollectives reads the NCCL table.
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

// readTable reads one table. If several rows have the same key, the first row is kept. For attention, rows of the
// default kernel come first, then rows of the kernel with the most rows.
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

// orderKernels moves the rows of the default kernel to the front, followed by the other kernels in descending order
// of their number of rows.
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

// raise increases latencies of products that are below the bound of the data sheet to this bound.
func (d *draft) raise(all []row) {
	for i := range all {
		r := &all[i]
		least := boundGEMM(&d.sheet, d.words[r.key[0]], [3]int{int(r.axis), int(r.key[1]), int(r.key[2])})
		if r.ms < least {
			d.change(gemmTable, r, "faster than the data sheet", least)
		}
	}
}
