package schema

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

const (
	// MaxViolations is the maximum number of violations in an Error.
	MaxViolations = 20
	// MaxPathLength is the maximum number of characters of a path. Clients choose names, so
	// a path could be as long as a body.
	MaxPathLength = 256
)

// Violation is one rule that a body breaks.
type Violation struct {
	// Path is the JSON Pointer (RFC 6901) of the value at fault, empty for the
	// body as a whole. A missing member is reported at the path it would have.
	// Beyond MaxPathLength it ends in an ellipsis.
	Path string
	// Message says what the value must be. It never repeats the value, since
	// bodies hold prompts.
	Message string
}

// Error describes the violations of a body.
type Error struct {
	// Violations has 1 to MaxViolations entries, sorted by path with array indexes in numeric order. The
	// same body gives the same violations.
	Violations []Violation
}

// Error returns the first violation and counts the others.
func (e *Error) Error() string {
	first := e.Violations[0]
	text := first.Message
	if first.Path != "" {
		text = first.Path + ": " + text
	}
	if more := len(e.Violations) - 1; more > 0 {
		text = fmt.Sprintf("%s (and %d more)", text, more)
	}
	return text
}

func violation(path, message string) *Error {
	return &Error{Violations: []Violation{{shorten(path), message}}}
}

func shorten(path string) string {
	count, cut := 0, 0
	for i := range path {
		switch count++; count {
		case MaxPathLength:
			cut = i
		case MaxPathLength + 1:
			return path[:cut] + "…"
		}
	}
	return path
}

// violationsOf returns the violations of an error of the validator. Only the leaves of its
// tree name a broken rule; the nodes above them say that a leaf failed.
func (s *Schema) violationsOf(err error) ([]Violation, error) {
	if err == nil {
		return nil, nil
	}
	finding, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return s.appendViolations(nil, finding), nil
}

// newError returns the Error of at least one violation.
func newError(found []Violation) *Error {
	slices.SortFunc(found, func(a, b Violation) int {
		return cmp.Or(comparePaths(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	found = slices.Compact(found)
	found = slices.Clone(found[:min(len(found), MaxViolations)])
	for i := range found {
		found[i].Path = shorten(found[i].Path)
	}
	return &Error{Violations: found}
}

func (s *Schema) appendViolations(found []Violation, finding *jsonschema.ValidationError) []Violation {
	for _, cause := range finding.Causes {
		found = s.appendViolations(found, cause)
	}
	if len(finding.Causes) > 0 {
		return found
	}
	path := pointer(finding)
	i := strings.LastIndexByte(finding.AbsoluteKeywordLocation, '/')
	keyword := finding.AbsoluteKeywordLocation[i+1:]
	rule := s.byLocation[finding.AbsoluteKeywordLocation[:i]]
	switch keyword {
	case "required":
		// The message of the finding lists all missing names.
		for _, name := range rule.Required {
			if strings.Contains(finding.Message, "'"+name+"'") {
				found = append(found, Violation{path + "/" + name, message(rule, keyword)})
			}
		}
		return found
	case discriminatorKeyword:
		path += "/" + discriminatorOf(rule).property
	}
	message := message(rule, keyword)
	if strings.Contains(finding.KeywordLocation, "/propertyNames") {
		message = "name " + message
	}
	return append(found, Violation{path, message})
}

// pointer returns the JSON Pointer of a finding. The validator writes it in its URI form,
// which escapes more characters.
func pointer(finding *jsonschema.ValidationError) string {
	path, err := url.PathUnescape(finding.InstanceLocation)
	if err != nil {
		return finding.InstanceLocation
	}
	return strings.ReplaceAll(path, emptyName, "")
}

// message returns the demand of a rule's keyword. The schema file may give the text.
func message(rule *jsonschema.Schema, keyword string) string {
	if own, ok := rule.Extensions[errorMessageKeyword].(errorMessage); ok && own[keyword] != "" {
		return own[keyword]
	}
	switch keyword {
	case "required":
		return keyword
	case "type":
		return "must be " + alternatives(rule.Types)
	case "enum":
		return "must be " + oneOf(valueNames(rule.Enum))
	case "const":
		return "must be " + oneOf(valueNames(rule.Constant))
	case discriminatorKeyword:
		return "must be " + oneOf(discriminatorOf(rule).names())
	case "minLength":
		return "must be at least " + count(rule.MinLength, "character")
	case "maxLength":
		return "must be at most " + count(rule.MaxLength, "character")
	case "minItems":
		return "must have at least " + count(rule.MinItems, "item")
	case "maxItems":
		return "must have at most " + count(rule.MaxItems, "item")
	case "maxProperties":
		return "must have at most " + count(rule.MaxProperties, "member")
	case "minimum":
		return "must be at least " + decimal(rule.Minimum)
	case "maximum":
		return "must be at most " + decimal(rule.Maximum)
	}
	return "is not allowed"
}

// alternatives puts an article before each type: "a string or null".
func alternatives(types []string) string {
	named := make([]string, len(types))
	for i, t := range types {
		switch t {
		case "null":
			named[i] = t
		case "array", "integer", "object":
			named[i] = "an " + t
		default:
			named[i] = "a " + t
		}
	}
	return join(named)
}

func oneOf(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return "one of " + join(values)
}

func valueNames(values []any) []string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = "null"
		if v != nil {
			names[i] = fmt.Sprint(v)
		}
	}
	return names
}

func join(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

func decimal(r *big.Rat) string {
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// comparePaths orders JSON Pointers, and the indexes of an array as numbers.
func comparePaths(a, b string) int {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	digits := func(text string) int { return len(text) - len(strings.TrimLeft(text, "0123456789")) }
	return cmp.Or(cmp.Compare(digits(a), digits(b)), cmp.Compare(a, b))
}
