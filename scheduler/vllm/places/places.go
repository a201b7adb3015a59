// Package places is a table from places in the tree of prompts, which follow one another, to blocks.
package places

// Page is the number of places of a page.
const Page = 128

// Table has for each place 1 + the number of a block, or 0 for none. Its pages are made when they are first used.
type Table struct {
	pages []*[Page]int32
}

// Row returns the entries from a place on up to the end of its page; none where the page is empty.
func (t *Table) Row(place int64) []int32 {
	page := place / Page
	if page >= int64(len(t.pages)) || t.pages[page] == nil {
		return nil
	}
	return t.pages[page][place%Page:]
}

// Enter returns the entries from a place on up to the end of its page, to be filled: at least one.
func (t *Table) Enter(place int64) []int32 {
	page := int(place / Page)
	if lack := page + 1 - len(t.pages); lack > 0 {
		t.pages = append(t.pages, make([]*[Page]int32, lack)...)
	}
	if t.pages[page] == nil {
		t.pages[page] = new([Page]int32)
	}
	return t.pages[page][place%Page:]
}
