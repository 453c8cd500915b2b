package opstest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// selector is a metric in an expression, with its matchers.
type selector struct {
	metric   string
	matchers []matcher
	at       int // its token
}

// matcher is a condition on a label, such as code=~"5..".
type matcher struct{ label, operator, value string }

// grouping is a list of labels, such as that of by, and the tokens that it is about.
type grouping struct {
	keyword  string
	labels   []string
	from, to int
}

// expression is what an expression of PromQL says about metrics and labels.
type expression struct {
	selectors []selector
	groupings []grouping
}

// lexeme matches a token. Variables of Grafana are tokens. Spaces and comments are none.
var lexeme = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`" + `|\$\w+|\$\{\w+\}|[0-9][0-9A-Za-z.]*|[A-Za-z_:][A-Za-z0-9_:]*|#[^\n]*|\s+|=~|!~|!=|==|<=|>=|[-+*/%^<>=(){}\[\],:]`)

var (
	word     = regexp.MustCompile(`^[A-Za-z_:]`)
	labelled = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	keywords = []string{"and", "or", "unless", "bool", "offset", "atan2", "inf", "Inf", "nan", "NaN"}
)

// tokens splits an expression. It refuses what PromQL does not have.
func tokens(text string) (all []string, err error) {
	for at := 0; at < len(text); {
		found := lexeme.FindStringIndex(text[at:])
		if found == nil || found[0] != 0 {
			return nil, fmt.Errorf("unexpected %.10q", text[at:])
		}
		token := text[at : at+found[1]]
		at += found[1]
		if token[0] != '#' && token[0] != ' ' && token[0] != '\n' && token[0] != '\t' && token[0] != '\r' {
			all = append(all, token)
		}
	}
	return all, nil
}

// pairs returns the place of each bracket's partner.
func pairs(all []string) (map[int]int, error) {
	partner := map[string]string{")": "(", "]": "[", "}": "{"}
	found := make(map[int]int)
	var open []int
	for i, token := range all {
		switch token {
		case "(", "[", "{":
			open = append(open, i)
		case ")", "]", "}":
			if len(open) == 0 || all[open[len(open)-1]] != partner[token] {
				return nil, fmt.Errorf("%q without %q", token, partner[token])
			}
			last := open[len(open)-1]
			open = open[:len(open)-1]
			found[i], found[last] = last, i
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("%q is not closed", all[open[0]])
	}
	return found, nil
}

// parse finds the metrics and labels of an expression. It does not check the rest of the
// grammar: promtool does in the second tier.
func parse(text string) (expression, error) {
	var e expression
	all, err := tokens(text)
	if err != nil {
		return e, err
	}
	pair, err := pairs(all)
	if err != nil {
		return e, err
	}
	is := func(i int, token string) bool { return i >= 0 && i < len(all) && all[i] == token }
	for i := 0; i < len(all); i++ {
		token := all[i]
		switch {
		case token == "[": // a duration
			i = pair[i]
		case token == "{":
			return e, errors.New("a selector without the name of its metric")
		case !word.MatchString(token), slices.Contains(keywords, token):
		case slices.Contains(labelled, token):
			if !is(i+1, "(") {
				continue // group_left without labels
			}
			end := pair[i+1]
			g := grouping{keyword: token, from: 0, to: len(all)}
			for _, label := range all[i+2 : end] {
				if label != "," {
					g.labels = append(g.labels, label)
				}
			}
			if token == "by" || token == "without" {
				switch {
				case is(end+1, "("): // sum by (label) (…)
					g.from, g.to = end+1, pair[end+1]
				case is(i-1, ")"): // sum(…) by (label)
					g.from, g.to = pair[i-1], i-1
				default:
					return e, fmt.Errorf("%q without an aggregation", token)
				}
			}
			e.groupings = append(e.groupings, g)
			i = end
		case is(i+1, "("), is(i+1, "by"), is(i+1, "without"): // a function or an aggregation
		default:
			s := selector{metric: token, at: i}
			if is(i+1, "{") {
				if s.matchers, err = matchers(all[i+2 : pair[i+1]]); err != nil {
					return e, fmt.Errorf("%s: %w", token, err)
				}
				i = pair[i+1]
			}
			e.selectors = append(e.selectors, s)
		}
	}
	return e, nil
}

// matchers reads the tokens between the braces of a selector.
func matchers(all []string) (found []matcher, err error) {
	for len(all) > 0 {
		if len(all) < 3 || !word.MatchString(all[0]) || !slices.Contains([]string{"=", "!=", "=~", "!~"}, all[1]) || all[0] == "__name__" {
			return nil, fmt.Errorf("not a matcher of a label: %q", all)
		}
		value, err := strconv.Unquote(all[2])
		if err != nil {
			return nil, fmt.Errorf("the value of %s: %w", all[0], err)
		}
		found = append(found, matcher{all[0], all[1], value})
		if all = all[3:]; len(all) > 0 {
			if all[0] != "," {
				return nil, fmt.Errorf("unexpected %q", all[0])
			}
			all = all[1:]
		}
	}
	return found, nil
}
