package caches

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/sim"
)

// maxLine bounds the bytes of a line. maxIDs bounds the hash ids of a prefix with its parents. mostIDs bounds the sum
// of those numbers over all prefixes that no other prefix continues.
const (
	maxLine = 1 << 28
	maxIDs  = 1 << 24
	mostIDs = 1 << 28
)

// Read reads a file. Errors name the file by path.
func Read(in io.Reader, path string) (*File, error) {
	r := &reader{file: &File{Path: path}, lines: bufio.NewScanner(in)}
	r.lines.Buffer(nil, maxLine)
	if err := r.readAll(); err != nil {
		return nil, err
	}
	return r.file, nil
}

// reader reads a file line by line.
type reader struct {
	file    *File
	lines   *bufio.Scanner
	line    int
	lengths []int // number of hash ids with those of the parents, by prefix
}

// fail returns an error that names the current line.
func (r *reader) fail(format string, args ...any) error {
	return r.file.ErrorAt(r.line, format, args...)
}

// next decodes the next line into to. The text what names the expected line in errors.
func (r *reader) next(to any, what string) error {
	if !r.lines.Scan() {
		if err := r.lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			return r.file.ErrorAt(r.line+1, "a line of more than %d bytes", maxLine)
		} else if err != nil {
			return fmt.Errorf("%s: %w", r.file.Path, err)
		}
		return r.file.ErrorAt(r.line, "the file ends here, must be %s after it: it was cut short", what)
	}
	r.line++
	d := json.NewDecoder(bytes.NewReader(r.lines.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(to); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return r.fail("the line is cut short, must be %s", what)
	} else if err != nil {
		return r.fail("%v, must be %s", err, what)
	}
	if d.More() {
		return r.fail("something stands behind %s", what)
	}
	return nil
}

func (r *reader) readAll() error {
	f := r.file
	h, err := r.readHead()
	if err != nil {
		return err
	}
	for i := range h.Prefixes {
		if err := r.readPrefix(i, h.Prefixes); err != nil {
			return err
		}
	}
	if err := r.checkSize(); err != nil {
		return err
	}
	for i := range h.Workers {
		if err := r.readWorker(i, h.Workers); err != nil {
			return err
		}
	}
	if r.lines.Scan() {
		r.line++
		return r.fail("more than the %d workers of %s:1", len(f.Workers), f.Path)
	}
	return r.lines.Err()
}

func (r *reader) readHead() (*head, error) {
	f := r.file
	// The decoding into kind allows unknown keys. A file of another format then gets an error about its format, not
	// about its keys.
	var kind struct {
		Format  string
		Version int
	}
	if !r.lines.Scan() {
		if err := r.lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		return nil, fmt.Errorf("%s: the file is empty, must be one that --save-caches wrote", f.Path)
	}
	r.line++
	h := new(head)
	switch err := json.Unmarshal(r.lines.Bytes(), &kind); {
	case err != nil || kind.Format != Format:
		return nil, r.fail(`must be {"format":"%s",...}, a file that --save-caches wrote`, Format)
	case kind.Version != Version:
		return nil, r.fail("version is %d, must be %d", kind.Version, Version)
	}
	d := json.NewDecoder(bytes.NewReader(r.lines.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(h); err != nil {
		return nil, r.fail("%v", err)
	}
	switch {
	case !(h.At >= 0) || math.IsInf(h.At, 0):
		return nil, r.fail("at_ms is %v, must be a finite instant >= 0", h.At)
	case h.Block < 1 || h.Block > maxBlock:
		return nil, r.fail("block_size is %d, must be 1 to %d", h.Block, maxBlock)
	case h.TraceBlock < 1 || h.TraceBlock > maxBlock:
		return nil, r.fail("trace_block_size is %d, must be 1 to %d", h.TraceBlock, maxBlock)
	case h.Prefixes < 0 || h.Workers < 1:
		return nil, r.fail("prefixes are %d and workers %d, must be at least 0 and 1", h.Prefixes, h.Workers)
	}
	f.At, f.Block, f.TraceBlock = sim.Time(h.At), h.Block, h.TraceBlock
	return h, nil
}

func (r *reader) readPrefix(i, of int) error {
	x := prefixLine{Prefix: -1}
	if err := r.next(&x, fmt.Sprintf("prefix %d of %d", i, of)); err != nil {
		return err
	}
	p := Prefix{Parent: -1, IDs: x.IDs}
	switch {
	case x.Prefix != i:
		return r.fail("prefix is %d, must be %d: they count up", x.Prefix, i)
	case len(x.IDs) == 0:
		return r.fail("no hash_ids, must have at least one")
	case x.Parent != nil && (*x.Parent < 0 || *x.Parent >= i):
		return r.fail("parent is %d, must be a prefix before %d", *x.Parent, i)
	case x.Parent != nil:
		p.Parent = *x.Parent
	}
	length := len(p.IDs)
	if p.Parent >= 0 {
		length += r.lengths[p.Parent]
	}
	if length > maxIDs {
		return r.fail("a prefix of %d hash ids, must be at most %d", length, maxIDs)
	}
	r.lengths = append(r.lengths, length)
	r.file.Prefixes = append(r.file.Prefixes, p)
	return nil
}

// checkSize returns an error if the prefixes would need too much memory.
func (r *reader) checkSize() error {
	continued := make([]bool, len(r.lengths))
	total := 0
	for i := len(r.lengths) - 1; i >= 0; i-- {
		if !continued[i] {
			total += r.lengths[i]
		}
		if up := r.file.Prefixes[i].Parent; up >= 0 {
			continued[up] = true
		}
	}
	if total > mostIDs {
		return fmt.Errorf("%s: its prefixes have %d hash ids with those before them, must have at most %d", r.file.Path, total, mostIDs)
	}
	return nil
}

func (r *reader) readWorker(i, of int) error {
	x := workerLine{Worker: -1}
	if err := r.next(&x, fmt.Sprintf("worker %d of %d, of the first line", i+1, of)); err != nil {
		return err
	}
	f := r.file
	switch {
	case x.Worker < 0 || x.Worker > math.MaxInt32:
		return r.fail("worker is %d, must be 0 to %d", x.Worker, math.MaxInt32)
	case x.Blocks < 1 || x.Blocks > maxBlock:
		return r.fail("kv_blocks is %d, must be 1 to %d", x.Blocks, maxBlock)
	case x.Entries < 0:
		return r.fail("entries are %d, must be >= 0", x.Entries)
	case x.Decodes < 0 || x.Attempts < 0:
		return r.fail("decode_passes is %d and admission_attempts %d, must be >= 0", x.Decodes, x.Attempts)
	}
	w := Worker{Pool: x.Pool, ID: sim.WorkerID(x.Worker), Engine: x.Engine, Blocks: x.Blocks, Decodes: x.Decodes, Attempts: x.Attempts, Line: r.line}
	if first := f.Find(w.Pool, w.ID); first != nil {
		return r.fail("worker %d is here for the second time, after line %d", w.ID, first.Line)
	}
	total := 0
	for k := range x.Entries {
		run, err := r.readEntry(fmt.Sprintf("entry %d of %d of worker %d", k+1, x.Entries, w.ID))
		if err != nil {
			return err
		}
		if total += int(run.To - run.From); total > w.Blocks {
			return r.fail("%d blocks up to here, more than the %d of the worker's kv_blocks", total, w.Blocks)
		}
		w.Runs = append(w.Runs, run)
	}
	if n := w.Cached(); n != x.Cached {
		return f.ErrorAt(w.Line, "cached_blocks is %d, and its entries have %d", x.Cached, n)
	}
	f.Workers = append(f.Workers, w)
	return nil
}

func (r *reader) readEntry(what string) (Run, error) {
	var x entryLine
	if err := r.next(&x, what); err != nil {
		return Run{}, err
	}
	run := Run{Prefix: -1, From: x.Blocks[0], To: x.Blocks[1], Copy: x.Copy, Own: x.Own, Shared: x.Shared, Blank: x.Blank, Line: r.line}
	if x.Prefix != nil {
		run.Prefix = *x.Prefix
	}
	switch f := r.file; {
	case run.From < 0 || run.To <= run.From:
		return run, r.fail("blocks are %d to %d, must be >= 0 and at least one", run.From, run.To)
	case x.Prefix != nil && (*x.Prefix < 0 || *x.Prefix >= len(f.Prefixes)):
		return run, r.fail("prefix is %d, must be one of the %d of the file", *x.Prefix, len(f.Prefixes))
	case run.Copy < 0 || run.Own < 0 || run.Shared < 0:
		return run, r.fail("copy, own or shared is below 0")
	case run.Prefix < 0 && run.Own == 0 && run.From > 0:
		return run, r.fail("blocks from %d on without a prefix, must be from 0", run.From)
	case run.Blank && run.Prefix >= 0, run.Copy > 0 && (run.Prefix < 0 || run.Own > 0), (run.Blank || run.Own == 0) && run.Shared > 0, run.Blank && run.Own > 0:
		return run, r.fail("copy goes with a prefix alone, shared with own, and blank with nothing")
	case run.Own > 0 && run.To <= run.Shared, run.Own > 0 && run.Shared > 0 != (run.Prefix >= 0):
		return run, r.fail("shared is %d, must be less than where the blocks end, and above 0 where they have a prefix", run.Shared)
	case run.Prefix >= 0 && f.count(run.shared()) > r.lengths[run.Prefix]:
		return run, r.fail("%d blocks of %d tokens of a prefix that has %d hash ids of %d", run.shared(), f.Block, r.lengths[run.Prefix], f.TraceBlock)
	}
	return run, nil
}
