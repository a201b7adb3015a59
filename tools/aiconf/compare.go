package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// comparison is a question with its answers.
type comparison struct {
	question
	peer, plain  *answer // of aiconfigurator, and without its factors for two pools
	closed, even *answer // of replay in a closed loop, and with arrivals at even gaps
}

// compareAnswers asks both programs.
func compareAnswers(ctx context.Context, q question, program, binary, dir string) (c comparison, err error) {
	c.question = q
	if c.peer, c.plain, err = askPeer(ctx, &q, program, dir); err == nil {
		c.closed, err = askOwn(ctx, &q, binary, true)
	}
	if err == nil {
		c.even, err = askOwn(ctx, &q, binary, false)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", q.name(), err)
	}
	return c, err
}

// near is the difference of two rates, as a share, up to which they are a tie.
const near = 0.05

// rank returns tensor parallelism from the highest rate to the lowest, of what meets the limits.
func rank(all map[int]rate) []int {
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
	for _, tp := range rank(all) {
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

// judgeRank compares two rankings: yes, tie where rates that change places are at most 5 % apart in one of them, or no. Rankings of other
// tensor parallelism differ.
func judgeRank(a, b map[int]rate) string {
	x, y := rank(a), rank(b)
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

// isNearPools reports whether one pool and two are a tie.
func (a *answer) isNearPools() bool { return isNear(best(a.two).tokens, best(a.one).tokens) }

// judgePools compares which of one pool and two is better: yes, tie or no.
func judgePools(a, b *answer) string {
	switch {
	case (best(a.two).tokens-best(a.one).tokens)*(best(b.two).tokens-best(b.one).tokens) > 0:
		return "yes"
	case a.isNearPools() || b.isNearPools():
		return "tie"
	}
	return "no"
}

// formatGain returns how much higher the best rate of two pools is than that of one.
func formatGain(a *answer) string {
	one, two := best(a.one).tokens, best(a.two).tokens
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

// formatTables returns the answers to each question, and how many rankings are the same.
func formatTables(all []comparison) string {
	one := func(a *answer) map[int]rate { return a.one }
	two := func(a *answer) map[int]rate { return a.two }
	rates := func(of func(*answer) map[int]rate) (func(*answer) string, func(a, b *answer) string) {
		return func(a *answer) string { return formatRank(of(a)) }, func(a, b *answer) string { return judgeRank(of(a), of(b)) }
	}
	var b strings.Builder
	format, judge := rates(one)
	formatTable(&b, "Tensor parallelism of one pool", all, format, judge)
	format, judge = rates(two)
	formatTable(&b, "Tensor parallelism of two pools", all, format, judge)
	formatTable(&b, "Two pools against one", all, formatGain, judgePools)
	return strings.TrimSuffix(b.String(), "\n")
}

// formatTable writes a row for each question.
func formatTable(b *strings.Builder, title string, all []comparison, format func(*answer) string, judge func(a, b *answer) string) {
	fmt.Fprintf(b, "| %s | aiconfigurator | without its factors | replay, closed loop | same | replay, even gaps | same |\n| --- | --- | --- | --- | --- | --- | --- |\n", title)
	closed, even := map[string]int{}, map[string]int{}
	for _, c := range all {
		x, y := judge(c.peer, c.closed), judge(c.peer, c.even)
		closed[x]++
		even[y]++
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", c.name(), format(c.peer), format(c.plain), format(c.closed), x, format(c.even), y)
	}
	fmt.Fprintf(b, "| **the same, of %d** |  |  |  | **%d** and %d ties |  | **%d** and %d ties |\n\n", len(all), closed["yes"], closed["tie"], even["yes"], even["tie"])
}
