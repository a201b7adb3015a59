package clone

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"unsafe"
)

// region is a piece of memory: a value, or those of a slice up to its capacity.
type region struct {
	elem     reflect.Type
	from, to unsafe.Pointer
	count    int
	name     string
}

func (r *region) size() uintptr { return r.elem.Size() * uintptr(r.count) }

// end returns where r ends, as a number.
func (r *region) end() uintptr { return uintptr(r.from) + r.size() }

// addRegion notes memory, unless as much is known from there on.
func (x *copying) addRegion(t reflect.Type, from unsafe.Pointer, count int, name string) {
	r := region{elem: t, from: from, count: count, name: name}
	i, ok := x.at[from]
	switch {
	case !ok:
		i = int32(len(x.found))
		x.found = append(x.found, r)
		x.at[from] = i
	case r.size() > x.found[i].size():
		x.found[i] = r
	default:
		return
	}
	x.todo = append(x.todo, i)
}

// merge leaves the regions that are in no other, in the order of their addresses.
func (x *copying) merge() error {
	slices.SortFunc(x.found, func(a, b region) int { return cmp.Compare(uintptr(a.from), uintptr(b.from)) })
	kept := x.found[:0]
	for _, r := range x.found {
		if len(kept) == 0 || uintptr(r.from) >= kept[len(kept)-1].end() {
			kept = append(kept, r)
			continue
		}
		last := &kept[len(kept)-1]
		if r.end() <= last.end() {
			continue
		}
		if r.elem != last.elem { // two slices of one array
			return fmt.Errorf("%s overlaps %s, which cannot be copied", r.name, last.name)
		}
		last.count = int((r.end() - uintptr(last.from)) / r.elem.Size())
	}
	x.found = kept
	clear(x.at)
	for i := range kept {
		x.at[kept[i].from] = int32(i)
	}
	return nil
}

// allocate makes a copy of each region, which points to what is copied.
func (x *copying) allocate() {
	for i := range x.found {
		r := &x.found[i]
		if r.count == 1 {
			own := reflect.New(r.elem)
			own.Elem().Set(reflect.NewAt(r.elem, r.from).Elem())
			r.to = own.UnsafePointer()
			continue
		}
		own := reflect.MakeSlice(reflect.SliceOf(r.elem), r.count, r.count)
		reflect.Copy(own, reflect.SliceAt(r.elem, r.from, r.count))
		r.to = own.UnsafePointer()
	}
}

// translate returns where the copy of what is at p is.
func (x *copying) translate(p unsafe.Pointer) unsafe.Pointer {
	if i, ok := x.at[p]; ok {
		return x.found[i].to
	}
	i, _ := slices.BinarySearchFunc(x.found, uintptr(p), func(r region, at uintptr) int { return cmp.Compare(uintptr(r.from), at) })
	r := &x.found[i-1]
	return unsafe.Add(r.to, uintptr(p)-uintptr(r.from))
}
