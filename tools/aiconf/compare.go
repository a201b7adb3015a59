package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// comparison is a question and its answers.
type comparison struct {
	question
	peer, plain  *answer // aiconfigurator with and without its correction factors for two pools
	closed, even *answer // replay in a closed loop, and replay with arrivals at even gaps (one pool only)
}

// compareAnswers gets the answers of both programs.
func compareAnswers(ctx context.Context, q question, program, binary, dir string) (c comparison, err error) {
	c.question = q
	if c.peer, c.plain, err = runPeer(ctx, &q, program, dir); err == nil {
		c.closed, err = planOwn(ctx, &q, binary, true)
	}
	if err == nil {
		c.even, err = planOwn(ctx, &q, binary, false)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", q.name(), err)
	}
	return c, err
}

// near is the relative difference up to which two rates are a tie.
const near = 0.05

// rankRates returns the tensor parallelisms with a rate, in descending order of the rate.
func rankRates(all map[int]rate) []int {
	order := make([]int, 0, len(all))
	for tp, r := range all {
		if r.tokens > 0 {
			order = append(order, tp)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		if all[a].tokens != all[b].tokens {
			return int(math.Copysign(1, all[b].tokens-all[a].tokens))
		}
		return a - b
	})
	return order
}

// formatRank returns a ranking with its rates.
func formatRank(all map[int]rate) string {
	var parts []string
	for _, tp := range rankRates(all) {
		text := fmt.Sprintf("%d: %.0f", tp, all[tp].tokens)
		if s := all[tp].split; s != "" {
			text += " (" + s + ")"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// judgeRank compares two rankings and returns yes, tie or no. judgeRank returns tie if all rates in different order
// are at most 5 % apart in one ranking. Rankings with different tensor parallelisms return no.
func judgeRank(a, b map[int]rate) string {
	x, y := rankRates(a), rankRates(b)
	if slices.Equal(x, y) {
		return "yes"
	}
	for _, s := range append(x, y...) {
		if a[s].tokens == 0 || b[s].tokens == 0 {
			return "no"
		}
		for _, t := range x {
			if isOpposite(a[s].tokens, a[t].tokens, b[s].tokens, b[t].tokens) {
				return "no"
			}
		}
	}
	return "tie"
}

// isOpposite reports whether two pairs of rates are in opposite orders, and neither is a tie.
func isOpposite(a, b, c, d float64) bool {
	return (a-b)*(c-d) < 0 && !isNear(a, b) && !isNear(c, d)
}

func isNear(a, b float64) bool { return math.Abs(a-b) <= near*max(a, b) }

// isNearPools reports whether the best rates of one pool and of two pools are a tie.
func (a *answer) isNearPools() bool { return isNear(findBest(a.two).tokens, findBest(a.one).tokens) }

// judgePools reports whether both answers prefer the same number of pools. judgePools returns yes, tie or no.
func judgePools(a, b *answer) string {
	switch {
	case (findBest(a.two).tokens-findBest(a.one).tokens)*(findBest(b.two).tokens-findBest(b.one).tokens) > 0:
		return "yes"
	case a.isNearPools() || b.isNearPools():
		return "tie"
	}
	return "no"
}

// formatGain returns the relative gain of the best rate of two pools over one pool.
func formatGain(a *answer) string {
	one, two := findBest(a.one).tokens, findBest(a.two).tokens
	switch {
	case one == 0 && two == 0:
		return "none"
	case one == 0:
		return "two pools alone"
	case two == 0:
		return "one pool alone"
	}
	return fmt.Sprintf("%+.0f %%", 100*(two/one-1))
}

// formatTables returns tables with the answers to each question and the number of equal rankings.
func formatTables(all []comparison) string {
	one := func(a *answer) string { return formatRank(a.one) }
	two := func(a *answer) string { return formatRank(a.two) }
	tables := []string{
		formatTable(all, "Tensor parallelism of one pool", one,
			column{title: "replay, closed loop", of: func(c *comparison) *answer { return c.closed }, judge: func(a, b *answer) string { return judgeRank(a.one, b.one) }},
			column{title: "replay, even gaps", of: func(c *comparison) *answer { return c.even }, judge: func(a, b *answer) string { return judgeRank(a.one, b.one) }}),
		formatTable(all, "Tensor parallelism of two pools", two,
			column{title: "without its factors", of: func(c *comparison) *answer { return c.plain }},
			column{title: "replay", of: func(c *comparison) *answer { return c.closed }, judge: func(a, b *answer) string { return judgeRank(a.two, b.two) }}),
		formatTable(all, "Two pools against one", formatGain,
			column{title: "without its factors", of: func(c *comparison) *answer { return c.plain }},
			column{title: "replay", of: func(c *comparison) *answer { return c.closed }, judge: judgePools}),
	}
	return strings.Join(tables, "\n")
}

// column is an answer that is compared with the answer of aiconfigurator.
type column struct {
	title string
	of    func(c *comparison) *answer
	judge func(a, b *answer) string // compares the ranking of aiconfigurator with this ranking; nil: not compared
}

// formatTable returns a table with a row for each question.
func formatTable(all []comparison, title string, format func(*answer) string, columns ...column) string {
	head, last := "| "+title+" | aiconfigurator", fmt.Sprintf("| **the same, of %d** | ", len(all))
	rows := make([]string, len(all))
	for i := range all {
		rows[i] = "| " + all[i].name() + " | " + format(all[i].peer)
	}
	for _, col := range columns {
		head += " | " + col.title
		last += " | "
		counts := map[string]int{}
		for i := range all {
			a := col.of(&all[i])
			rows[i] += " | " + format(a)
			if col.judge != nil {
				same := col.judge(all[i].peer, a)
				rows[i] += " | " + same
				counts[same]++
			}
		}
		if col.judge != nil {
			head += " | same"
			last += fmt.Sprintf(" | **%d** and %d ties", counts["yes"], counts["tie"])
		}
	}
	line := strings.TrimSuffix(strings.Repeat("| --- ", strings.Count(head, "| ")), " ")
	lines := append(append([]string{head, line}, rows...), last)
	return strings.Join(lines, " |\n") + " |\n"
}
