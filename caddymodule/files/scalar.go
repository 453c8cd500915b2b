package files

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

const (
	fileTag   = "!file"
	stringTag = "!!str"
)

// scalar is the meaning of a YAML scalar: a JSON kind, and the text of a number or string.
type scalar struct {
	kind jsontext.Kind // n, t, f, 0 or "
	text string
}

// readScalar returns the meaning of a scalar without a tag, or with !!str. If it has none,
// the problem says how to write it. Only true, false, null and ~ are words, besides their
// forms in upper case. So yes, on and dates are strings.
func readScalar(n *yaml.Node) (s scalar, problem string) {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	switch {
	case n.Style&yaml.TaggedStyle != 0 && n.Tag != stringTag:
		return scalar{'n', ""}, "has an unknown tag: there are !file and !!str"
	case n.Style&yaml.TaggedStyle != 0, n.Style&quoted != 0:
		return scalar{'"', n.Value}, ""
	}
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return scalar{'n', ""}, ""
	case "true", "True", "TRUE":
		return scalar{'t', ""}, ""
	case "false", "False", "FALSE":
		return scalar{'f', ""}, ""
	}
	if !strings.ContainsAny(n.Value[:1], "+-.0123456789") {
		return scalar{'"', n.Value}, ""
	}
	if jsonNumber.MatchString(n.Value) {
		return scalar{'0', n.Value}, ""
	}
	for _, form := range yamlNumbers {
		if form.pattern.MatchString(n.Value) {
			return scalar{'0', "0"}, form.message
		}
	}
	return scalar{'"', n.Value}, ""
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// yamlNumbers are forms that some readers of YAML take for numbers, and JSON does not have.
var yamlNumbers = func() (forms []yamlNumber) {
	const elseText = ", or as a text in quotes"
	for _, form := range [][2]string{
		{`[-+]?(0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+)`, "write the number with decimal digits" + elseText},
		{`[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)`, "there is no such number in JSON: leave it out, or write a text in quotes"},
		{`[-+]?[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|[-+]?[0-9]*\.[0-9]+_[0-9_]*`, "write the number without underscores" + elseText},
		{`\+[0-9.]+([eE][-+]?[0-9]+)?`, "write the number without the plus" + elseText},
		{`-?\.[0-9]+([eE][-+]?[0-9]+)?`, "write the number with a digit before the point" + elseText},
		{`-?[0-9]+\.([eE][-+]?[0-9]+)?`, "write the number with a digit behind the point" + elseText},
		{`-?0[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?`, "write the number without leading zeros" + elseText},
	} {
		forms = append(forms, yamlNumber{regexp.MustCompile(`^(` + form[0] + `)$`), form[1]})
	}
	return forms
}()

type yamlNumber struct {
	pattern *regexp.Regexp
	message string
}
