package opstest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// selector is a metric in an expression, with its matchers.
type selector struct {
	metric   string
	matchers []matcher
}

// matcher is a condition on a label, such as code=~"5..".
type matcher struct{ label, operator, value string }

// grouping is a list of labels, such as that of by.
type grouping struct {
	keyword string
	labels  []string
}

// expression is what an expression of PromQL says about metrics and labels.
type expression struct {
	selectors []selector
	groupings []grouping
}

var (
	ignored    = regexp.MustCompile(`#[^\n]*|\[[^\]]*\]`) // comments and durations
	groupings  = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	selectors  = regexp.MustCompile(`\b([A-Za-z_:][\w:]*)\s*(\(|\{(?:[^}"]|"(?:[^"\\]|\\.)*")*\})?`)
	matchers   = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")`)
	notMetrics = []string{"and", "or", "unless", "bool", "offset", "group_left", "group_right", "inf", "Inf", "nan", "NaN"}
)

// parse finds the metrics and labels of an expression. promtool checks the grammar in the
// second tier.
func parse(text string) (e expression) {
	text = ignored.ReplaceAllString(text, "")
	for _, found := range groupings.FindAllStringSubmatch(text, -1) {
		labels := strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' || r == ' ' })
		e.groupings = append(e.groupings, grouping{found[1], labels})
	}
	for _, found := range selectors.FindAllStringSubmatch(groupings.ReplaceAllString(text, ""), -1) {
		if found[2] == "(" || slices.Contains(notMetrics, found[1]) { // a function or an operator
			continue
		}
		s := selector{metric: found[1]}
		for _, m := range matchers.FindAllStringSubmatch(found[2], -1) {
			value, _ := strconv.Unquote(m[3])
			s.matchers = append(s.matchers, matcher{m[1], m[2], value})
		}
		e.selectors = append(e.selectors, s)
	}
	return e
}
