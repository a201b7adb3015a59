package formats

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/loadgen"
)

// idMapHead is the first line of a file of numbers; the number of the next new
// id follows.
const idMapHead = "hash_id,number,next="

// WriteMap writes which id has which number, so that ReadIDMap can go on with it.
func (d *Dense) WriteMap(w io.Writer) error {
	type pair struct {
		id     uint64
		number uint32
	}
	var all []pair
	if d.last != 0 {
		all = append(all, pair{lastID, d.last - 1})
	}
	for id, n := range d.to.All() {
		all = append(all, pair{id, *n - 1})
	}
	slices.SortFunc(all, func(a, b pair) int { return int(a.number) - int(b.number) })
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s%d\n", idMapHead, d.next)
	for _, p := range all {
		fmt.Fprintf(out, "%d,%d\n", p.id, p.number)
	}
	return out.Flush()
}

// ReadIDMap reads what WriteMap wrote, for blocks of the given number of tokens;
// name stands for the file in messages.
func ReadIDMap(r io.Reader, name string, block int) (*Dense, error) {
	d := NewDense(block)
	lines := bufio.NewScanner(r)
	n := 0
	fail := func() error {
		return &loadgen.SyntaxError{Name: name, Line: n, Msg: fmt.Sprintf("%.40q, want the numbers of ids that an earlier run wrote", lines.Text())}
	}
	for lines.Scan() {
		if n++; n == 1 {
			rest, ok := strings.CutPrefix(lines.Text(), idMapHead)
			next, err := strconv.ParseUint(rest, 10, 32)
			if !ok || err != nil {
				return nil, fail()
			}
			d.next = next
			continue
		}
		left, right, _ := strings.Cut(lines.Text(), ",")
		id, err1 := strconv.ParseUint(left, 10, 64)
		number, err2 := strconv.ParseUint(right, 10, 32)
		if err1 != nil || err2 != nil || number >= d.next {
			return nil, fail()
		}
		*d.place(id) = uint32(number + 1)
	}
	return d, lines.Err()
}
