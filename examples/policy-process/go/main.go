// This program is a router policy in a separate process. The policy scores workers like the picker of llm-d, with the
// weights 3 for cached prefix, 2 for free KV cache and 2 for a short queue, each score from 0 to 1.
//
//	go build -o bin/picker ./examples/policy-process/go
//	replay trace TRACE --workers 8 --policy-process bin/picker
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
)

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	if _, err := lines.ReadSlice('\n'); err != nil { // skip the greeting, which this policy does not need
		failWith(err)
	}
	fmt.Println(`{"version": 1, "facts": ["request.blocks", "cached_blocks", "kv_usage", "waiting"]}`)
	var d decision
	var answer []byte
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			break // the end of the replay
		}
		if err := d.read(line); err != nil {
			failWith(err)
		}
		answer = append(strconv.AppendInt(answer[:0], d.choose(), 10), '\n')
		if _, err := os.Stdout.Write(answer); err != nil {
			failWith(err)
		}
	}
}

// failWith prints an error on standard error, which replay shares.
func failWith(err error) {
	fmt.Fprintln(os.Stderr, "picker:", err)
	os.Exit(1)
}

// decision is one input line: [[ids],blocks,[cached],[usage],[waiting]].
type decision struct {
	numbers                     []float64 // all of the line
	blocks                      float64
	ids, cached, usage, waiting []float64
}

// read parses a line. The line contains only numbers: four per worker and one for the request.
func (d *decision) read(line []byte) error {
	d.numbers = d.numbers[:0]
	for part := range bytes.FieldsFuncSeq(line, func(r rune) bool { return r == '[' || r == ']' || r == ',' || r == '\n' }) {
		x, err := strconv.ParseFloat(string(part), 64)
		if err != nil {
			return err
		}
		d.numbers = append(d.numbers, x)
	}
	n := len(d.numbers) / 4
	if len(d.numbers) != 4*n+1 {
		return fmt.Errorf("%d numbers in a line, expected four for each worker and one more", len(d.numbers))
	}
	d.ids, d.blocks = d.numbers[:n], d.numbers[n]
	d.cached, d.usage, d.waiting = d.numbers[n+1:2*n+1], d.numbers[2*n+1:3*n+1], d.numbers[3*n+1:]
	return nil
}

// choose returns the worker with the highest score. If several workers have the highest score, choose returns the
// first worker.
func (d *decision) choose() int64 {
	least, most := slices.Min(d.waiting), slices.Max(d.waiting)
	best, highest := 0, -1.0
	for i := range d.ids {
		queue := 1.0
		if most > least {
			queue = (most - d.waiting[i]) / (most - least)
		}
		score := float64(3*(d.cached[i]/max(d.blocks, 1))) + float64(2*(1-d.usage[i])) + float64(2*queue)
		if score > highest {
			best, highest = i, score
		}
	}
	return int64(d.ids[best])
}
