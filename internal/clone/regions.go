package clone

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/replay-llm/replay/internal/stable"
)

// region is a block of memory: one value, or the elements of a slice up to its capacity.
type region struct {
	elem     reflect.Type
	from, to unsafe.Pointer
	count    int
	used     int // number of elements in use: up to the length of the slice
	name     string
}

func (r *region) size() uintptr { return r.elem.Size() * uintptr(r.count) }

// end returns the end address of r.
func (r *region) end() uintptr { return uintptr(r.from) + r.size() }

// addRegion adds r, unless a known region with the same start address is at least as large.
func (x *copying) addRegion(r region) {
	i, ok := x.at[r.from]
	switch {
	case !ok:
		i = int32(len(x.found))
		x.found = append(x.found, r)
		x.at[r.from] = i
	case r.size() > x.found[i].size():
		r.use(x.found[i])
		x.found[i] = r
	default:
		x.found[i].use(r)
		return
	}
	x.todo = append(x.todo, i)
}

// merge sorts the regions by address and merges overlapping regions.
func (x *copying) merge() error {
	stable.Sort(x.found, func(a, b region) int { return cmp.Compare(uintptr(a.from), uintptr(b.from)) })
	kept := x.found[:0]
	for _, r := range x.found {
		if len(kept) == 0 || uintptr(r.from) >= kept[len(kept)-1].end() {
			kept = append(kept, r)
			continue
		}
		last := &kept[len(kept)-1]
		if r.end() <= last.end() {
			last.use(r)
			continue
		}
		if r.elem != last.elem { // only two slices of one array may overlap partly
			return fmt.Errorf("%s overlaps %s, which cannot be copied", r.name, last.name)
		}
		last.count = int((r.end() - uintptr(last.from)) / r.elem.Size())
		last.use(r)
	}
	x.found = kept
	clear(x.at)
	for i := range kept {
		x.at[kept[i].from] = int32(i)
	}
	return nil
}

// allocate copies each region. The pointers in the copies still point to the originals.
func (x *copying) allocate() {
	for i := range x.found {
		r := &x.found[i]
		if r.count == 1 {
			own := reflect.New(r.elem)
			own.Elem().Set(reflect.NewAt(r.elem, r.from).Elem())
			r.to = own.UnsafePointer()
			continue
		}
		if x.planOf(r.elem).plain { // the copy of a long slice of numbers omits most of its unused capacity
			r.count = min(r.count, r.used+r.used/4+leastSpare)
		}
		own := reflect.MakeSlice(reflect.SliceOf(r.elem), r.count, r.count)
		reflect.Copy(own, reflect.SliceAt(r.elem, r.from, r.count))
		r.to = own.UnsafePointer()
	}
}

// leastSpare is the least number of unused elements that a copied slice keeps.
const leastSpare = 64

// use marks the used elements of o as used in r. The region r contains o.
func (r *region) use(o region) {
	end := uintptr(o.from) - uintptr(r.from) + o.elem.Size()*uintptr(o.used)
	r.used = max(r.used, int((end+r.elem.Size()-1)/r.elem.Size()))
}

// translateSlice returns the address of the copy of a slice, and the capacity of the copy.
func (x *copying) translateSlice(p unsafe.Pointer, capacity int, size uintptr) (unsafe.Pointer, int) {
	r, offset := x.regionOf(p)
	if most := r.size() - min(offset, r.size()); uintptr(capacity)*size > most {
		capacity = int(most / size)
	}
	if capacity == 0 {
		offset = 0 // the address may be after the end of the copied region
	}
	return unsafe.Add(r.to, offset), capacity
}

// translate returns the address of the copy of the value at p.
func (x *copying) translate(p unsafe.Pointer) unsafe.Pointer {
	r, offset := x.regionOf(p)
	return unsafe.Add(r.to, offset)
}

// regionOf returns the region that contains p, and the offset of p in this region.
func (x *copying) regionOf(p unsafe.Pointer) (*region, uintptr) {
	if i, ok := x.at[p]; ok {
		return &x.found[i], 0
	}
	i, ok := slices.BinarySearchFunc(x.found, uintptr(p), func(r region, at uintptr) int { return cmp.Compare(uintptr(r.from), at) })
	if !ok {
		i--
	}
	return &x.found[i], uintptr(p) - uintptr(x.found[i].from)
}
