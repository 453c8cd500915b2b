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

// word returns the JSON of a scalar that is no string.
func (s scalar) word() string {
	switch s.kind {
	case 'n':
		return "null"
	case 't':
		return "true"
	case 'f':
		return "false"
	}
	return s.text
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
	if yamlNumber.MatchString(n.Value) {
		return scalar{'0', "0"}, "is a number in a form that JSON does not have: write one such as 10, 0.5 or 1e3, or a text in quotes"
	}
	return scalar{'"', n.Value}, ""
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// yamlNumber has the forms that some readers of YAML take for numbers: with another base, with
// underscores, a plus or leading zeros, without a digit beside the point, and those that are none.
var yamlNumber = regexp.MustCompile(`^[-+]?(0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|\.(inf|Inf|INF|nan|NaN|NAN)|` +
	`([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?)$`)
