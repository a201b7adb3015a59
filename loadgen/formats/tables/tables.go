// Package tables reads tables with a header in known formats. The package also reads rows and JSON objects by the
// columns that the user names.
//
// Read csv.go and tables.go, then columns.go and columnrow.go.
package tables

import (
	"math"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// List returns the CSV formats. The format of a file is the first with all its required columns in the header.
func List() []table {
	return []table{
		{"azure-mm", "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens", "", azureImagesRow, beginLengths},
		{"azure", "TIMESTAMP,ContextTokens,GeneratedTokens", "", azureRow, beginLengths},
		{"burstgpt", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", ",Session ID,Elapsed time", burstRow, beginBurst},
		{"vidur", "arrived_at,num_prefill_tokens,num_decode_tokens", ",session_id,block_hash_ids", vidurRow, beginVidur},
		{"vidur-lengths", "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio", "", vidurLengthsRow, beginUntimed},
		{"splitwise", "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size", "", splitwiseRow, beginLengths},
	}
}

func beginLengths(s *formats.Stream, _ []bool) { s.Private = true }

func azureRow(c *csvRows, r *formats.Record) bool {
	c.readLengths(1, r)
	c.readCalendar(r)
	return true
}

func azureImagesRow(c *csvRows, r *formats.Record) bool {
	c.readLengths(2, r)
	images := c.readTokens(1)
	if images > 0 && c.s.Options.ImageTokens == 0 && !c.warned {
		c.warned = true
		c.s.Warn(c.s.Name + ": images count as 0 tokens, use --image-tokens")
	}
	if images > 0 && c.s.Options.ImageTokens > (scan.MaxTokens-r.Input)/images {
		c.complain("NumImages is %d, which makes a prompt of more than %d tokens", images, scan.MaxTokens)
	}
	r.Input += images * c.s.Options.ImageTokens
	c.readCalendar(r)
	return true
}

func beginBurst(s *formats.Stream, have []bool) {
	s.Private = true
	s.Chained = have[6] && have[7] && s.Options.Sessions != "flat"
}

func burstRow(c *csvRows, r *formats.Record) bool {
	r.Arrives(c.readSeconds(0))
	c.readLengths(2, r)
	total := c.readTokens(4)
	if c.err == nil && total != r.Input+r.Output && !c.warned {
		c.warned = true
		c.s.Warn(c.errorf("Total tokens is %d, must be %d, the sum of the two; the sum is taken, here and further down", total, r.Input+r.Output).Error())
	}
	if log := string(c.cells[5]); log != "Conversation log" && log != "API log" {
		c.complain("Log Type is %q, must be Conversation log or API log", excerpt.Cut(c.cells[5]))
	}
	elapsed := scan.ExactStamp(0)
	if text := c.cells[7]; len(text) > 0 {
		if elapsed = c.readSeconds(7); elapsed.MS < 0 {
			c.complain("Elapsed time is %s, must be >= 0", excerpt.Cut(text))
		}
	}
	if m := c.s.Options.Model; m != "" && string(c.cells[1]) != m {
		return false
	}
	if id := c.cells[6]; len(id) > 0 && r.Output > 0 {
		c.chainTurn(id, r.When.Plus(elapsed), r)
	}
	return true
}

// chainTurn makes r wait for the previous turn of its session. end is the end of r. The next turn of the session
// waits for end.
func (c *csvRows) chainTurn(session []byte, end scan.Stamp, r *formats.Record) {
	r.Group = session
	if c.s.Chained && c.err == nil {
		r.Session = session
		c.ends.Chain(r, session, end)
	}
}

func beginVidur(s *formats.Stream, have []bool) {
	s.Private = !have[4]
	s.Shape.Inexact = true
}

func vidurRow(c *csvRows, r *formats.Record) bool {
	r.Arrives(c.readSeconds(0))
	if id := c.cells[3]; len(id) > 0 {
		r.Group = id
		if c.s.Options.Sessions == "chain" {
			c.s.Chained = true
			c.chainTurn(id, r.When, r)
		}
	}
	if ids := c.cells[4]; len(ids) > 0 {
		for i, id := range strings.Split(string(ids), "|") {
			n, err := strconv.ParseUint(id, 10, 64)
			if err != nil {
				c.complain("block_hash_ids[%d] is %q, must be 0 to %d", i, excerpt.Cut(id), uint64(math.MaxUint64))
			}
			r.IDs = append(r.IDs, n)
		}
	}
	c.readLengths(1, r)
	return true
}

func beginUntimed(s *formats.Stream, _ []bool) {
	s.Private = true
	s.PaceArrivals()
}

func vidurLengthsRow(c *csvRows, r *formats.Record) bool {
	if c.readLengths(0, r); c.err == nil {
		c.s.ArrivePaced(r)
	}
	return true
}

func splitwiseRow(c *csvRows, r *formats.Record) bool {
	if batch := c.readTokens(4); batch != 1 {
		c.complain("batch_size is %d, must be 1", batch)
	}
	r.Arrives(c.readSeconds(3))
	c.readLengths(5, r)
	return true
}
