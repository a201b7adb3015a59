package simplecpu

// pageKeys is the number of keys of a page of an index.
const pageKeys = 128

// index maps keys to blocks. Keys of shared prompts, 0 and above, follow one another and are kept in pages; those of single requests
// are below 0.
type index struct {
	pages [][]int32 // 1 + the block of a key; 0 where there is none
	own   map[Key]int32
}

func newIndex() index { return index{own: map[Key]int32{}} }

// get returns the block of a key; ok is false where there is none.
func (x *index) get(key Key) (b int32, ok bool) {
	if key < 0 {
		b, ok = x.own[key]
		return b, ok
	}
	page := key / pageKeys
	if page >= Key(len(x.pages)) || x.pages[page] == nil {
		return none, false
	}
	b = x.pages[page][key%pageKeys] - 1
	return b, b >= 0
}

// set enters the block of a key.
func (x *index) set(key Key, b int32) {
	if key < 0 {
		x.own[key] = b
		return
	}
	page := int(key / pageKeys)
	if lack := page + 1 - len(x.pages); lack > 0 {
		x.pages = append(x.pages, make([][]int32, lack)...)
	}
	if x.pages[page] == nil {
		x.pages[page] = make([]int32, pageKeys)
	}
	x.pages[page][key%pageKeys] = b + 1
}

// remove removes a key, which has a block.
func (x *index) remove(key Key) {
	if key < 0 {
		delete(x.own, key)
	} else {
		x.pages[key/pageKeys][key%pageKeys] = 0
	}
}
