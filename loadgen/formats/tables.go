package formats

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// listTables are the CSV formats; the first whose columns are all there is it.
func listTables() []table {
	need := func(names ...string) (all []column) {
		for _, n := range names {
			all = append(all, column{name: n})
		}
		return all
	}
	return []table{
		{"azure-mm", need("TIMESTAMP", "NumImages", "ContextTokens", "GeneratedTokens"), azureImagesRow, beginLengths},
		{"azure", need("TIMESTAMP", "ContextTokens", "GeneratedTokens"), azureRow, beginLengths},
		{"burstgpt", append(need("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"),
			column{"Session ID", true}, column{"Elapsed time", true}), burstRow, beginBurst},
		{"vidur", append(need("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
			column{"session_id", true}, column{"block_hash_ids", true}), vidurRow, beginVidur},
		{"vidur-lengths", need("num_prefill_tokens", "num_decode_tokens", "num_total_tokens", "pd_ratio"), vidurLengthsRow, beginUntimed},
		{"splitwise", need("request_id", "request_type", "application_id", "arrival_timestamp", "batch_size", "prompt_size", "token_size"), splitwiseRow, beginLengths},
	}
}

func beginLengths(s *Stream, _ []bool) error {
	s.Private = true
	return nil
}

func beginUntimed(s *Stream, _ []bool) error {
	s.Private = true
	s.paceArrivals()
	return nil
}

// readLengths reads input and output from cells i and i+1 of the table.
func (c *csvRows) readLengths(cells [][]byte, i int, r *Record) (err error) {
	if r.Input, err = c.parseTokens(c.table.columns[i].name, cells[i]); err != nil {
		return err
	}
	r.Output, err = c.parseTokens(c.table.columns[i+1].name, cells[i+1])
	return err
}

// readCalendar reads the time of an Azure row.
func (c *csvRows) readCalendar(cell []byte, r *Record) error {
	cell = bytes.TrimSpace(cell)
	at, zoned, ok := calendarStamp(cell)
	if !ok {
		return c.errorf("TIMESTAMP is %q, want a valid date and time", cutExcerpt(cell))
	}
	if !c.told {
		c.zoned, c.told = zoned, true
	}
	switch {
	case zoned && !c.zoned:
		return c.errorf("TIMESTAMP is %q, which has a zone; the rows before had none, want the same on all", cutExcerpt(cell))
	case !zoned && c.zoned:
		return c.errorf("TIMESTAMP is %q, which has no zone; the rows before had one, want the same on all", cutExcerpt(cell))
	}
	r.arrives(at)
	return nil
}

func azureRow(c *csvRows, cells [][]byte, r *Record) (bool, error) {
	if err := c.readLengths(cells, 1, r); err != nil {
		return false, err
	}
	return true, c.readCalendar(cells[0], r)
}

func azureImagesRow(c *csvRows, cells [][]byte, r *Record) (bool, error) {
	if err := c.readLengths(cells, 2, r); err != nil {
		return false, err
	}
	images, err := c.parseTokens("NumImages", cells[1])
	if err != nil {
		return false, err
	}
	if images > 0 && c.s.o.ImageTokens == 0 && !c.warned {
		c.warned = true
		c.s.o.warn(c.s.Name + ": images count as 0 tokens, want --image-tokens")
	}
	if images > 0 && c.s.o.ImageTokens > (maxTokens-r.Input)/images {
		return false, c.errorf("NumImages is %d, which makes a prompt of more than %d tokens", images, maxTokens)
	}
	r.Input += images * c.s.o.ImageTokens
	return true, c.readCalendar(cells[0], r)
}

func beginBurst(s *Stream, have []bool) error {
	s.Private, s.shape.zero = true, "skip"
	s.Chained = have[6] && have[7] && s.o.Sessions != "flat"
	return nil
}

func burstRow(c *csvRows, cells [][]byte, r *Record) (bool, error) {
	at, err := c.parseSeconds("Timestamp", cells[0])
	if err != nil {
		return false, err
	}
	if err := c.readLengths(cells, 2, r); err != nil {
		return false, err
	}
	total, err := c.parseTokens("Total tokens", cells[4])
	if err != nil {
		return false, err
	}
	if total != r.Input+r.Output && !c.warned {
		c.warned = true
		c.s.o.warn(c.errorf("Total tokens is %d, want %d, the sum of the two; the sum is taken, here and further down", total, r.Input+r.Output).Error())
	}
	if log := string(bytes.TrimSpace(cells[5])); log != "Conversation log" && log != "API log" {
		return false, c.errorf("Log Type is %q, want Conversation log or API log", cutExcerpt([]byte(log)))
	}
	r.arrives(at)
	elapsed := exactStamp(0)
	if text := bytes.TrimSpace(cells[7]); len(text) > 0 {
		if elapsed, err = c.parseSeconds("Elapsed time", text); err != nil {
			return false, err
		}
		if elapsed.ms < 0 {
			return false, c.errorf("Elapsed time is %s, want >= 0", cutExcerpt(text))
		}
	}
	if m := c.s.o.Model; m != "" && string(bytes.TrimSpace(cells[1])) != m {
		return false, nil
	}
	if id := bytes.TrimSpace(cells[6]); len(id) > 0 && r.Output > 0 {
		c.chainTurn(id, at.plus(elapsed), r)
	}
	return true, nil
}

// chainTurn makes r wait for the turn of its session before, which ended at an
// instant that earlier rows said.
func (c *csvRows) chainTurn(session []byte, end stamp, r *Record) {
	r.Group = session
	if c.s.Chained {
		r.Session = session
		c.ends.chain(r, session, end)
	}
}

func beginVidur(s *Stream, have []bool) error {
	s.Private = !have[4]
	s.shape.inexact = true
	return nil
}

func vidurRow(c *csvRows, cells [][]byte, r *Record) (bool, error) {
	at, err := c.parseSeconds("arrived_at", cells[0])
	if err != nil {
		return false, err
	}
	r.arrives(at)
	if id := bytes.TrimSpace(cells[3]); len(id) > 0 {
		r.Group = id
		if c.s.o.Sessions == "chain" {
			c.s.Chained = true
			c.chainTurn(id, at, r)
		}
	}
	if ids := bytes.TrimSpace(cells[4]); len(ids) > 0 {
		for i, id := range strings.Split(string(ids), "|") {
			n, err := strconv.ParseUint(id, 10, 64)
			if err != nil {
				return false, c.errorf("block_hash_ids[%d] is %q, want 0 to %d", i, cutExcerpt([]byte(id)), uint64(math.MaxUint64))
			}
			r.IDs = append(r.IDs, n)
		}
	}
	return true, c.readLengths(cells, 1, r)
}

func vidurLengthsRow(c *csvRows, cells [][]byte, r *Record) (bool, error) {
	if err := c.readLengths(cells, 0, r); err != nil {
		return false, err
	}
	c.s.arrivePaced(r)
	return true, nil
}

func splitwiseRow(c *csvRows, cells [][]byte, r *Record) (bool, error) {
	if batch, err := c.parseTokens("batch_size", cells[4]); err != nil || batch != 1 {
		if err == nil {
			err = c.errorf("batch_size is %d, want 1", batch)
		}
		return false, err
	}
	at, err := c.parseSeconds("arrival_timestamp", cells[3])
	if err != nil {
		return false, err
	}
	r.arrives(at)
	return true, c.readLengths(cells, 5, r)
}
