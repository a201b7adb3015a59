// Package places is a table of blocks by their positions in a prompt tree.
package places

// Page is the number of positions per page.
const Page = 128

// Table has 1 + the number of a block for each position, or 0 for none. Pages are allocated at their first use.
type Table struct {
	pages []*[Page]int32
}

// Row returns the entries from a position up to the end of its page, or nil if the page is not allocated.
func (t *Table) Row(place int64) []int32 {
	page := place / Page
	if page >= int64(len(t.pages)) || t.pages[page] == nil {
		return nil
	}
	return t.pages[page][place%Page:]
}

// Enter returns the entries from a position up to the end of its page for writing, at least one entry.
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
