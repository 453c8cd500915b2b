package caddymodule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// typeNamer gives the types of a document names: objects with named members, and enumerations.
// Generators of clients number types that have none. It also gives schemas the forms that all
// generators know. A validator accepts the same values as before.
type typeNamer struct {
	schemas *yaml.Node // components, which get the types that had no name
	// nullable are the components that permitted null. References to them do so instead, since a
	// type of a client is an object, and not an object or nothing.
	nullable map[string]bool
	errs     []error
}

// nameTypes names the types of all components.
func nameTypes(components *yaml.Node) error {
	n := typeNamer{schemas: memberNode(components, "schemas"), nullable: make(map[string]bool)}
	for name, s := range members(copyNode(n.schemas)) {
		n.simplify(s)
		n.nullable[name] = takeNull(s)
		*memberNode(n.schemas, name) = *s
	}
	for again := true; again; { // a component may extend another one that permitted null
		again = false
		for name, s := range members(n.schemas) {
			if !n.nullable[name] && n.allPermitNull(memberNode(s, "allOf")) {
				n.nullable[name], again = true, true
			}
		}
	}
	for name, s := range members(copyNode(n.schemas)) {
		n.nameParts(s, name)
		*memberNode(n.schemas, name) = *s
	}
	for _, kind := range []string{"parameters", "headers", "responses"} {
		for name, part := range members(memberNode(components, kind)) {
			for _, s := range schemasOf(part) {
				if about := memberNode(part, "description"); isType(s) && memberNode(s, "description") == nil {
					putNode(s, "description", about)
				}
				n.simplify(s)
				n.name(s, name+map[string]string{"responses": "Response"}[kind])
				n.passNull(s)
			}
		}
	}
	for _, s := range members(n.schemas) {
		n.passNull(s)
	}
	return errors.Join(n.errs...)
}

// schemasOf returns the schemas of a parameter, a header or a response.
func schemasOf(part *yaml.Node) (all []*yaml.Node) {
	if s := memberNode(part, "schema"); s != nil {
		all = append(all, s)
	}
	if content := memberNode(part, "content"); content != nil {
		for _, media := range members(content) {
			if s := memberNode(media, "schema"); s != nil {
				all = append(all, s)
			}
		}
	}
	return all
}

// alternativeKeywords are the keywords of lists of schemas.
var alternativeKeywords = []string{"allOf", "anyOf", "oneOf"}

// eachPart calls visit with each direct subschema of s that describes a part of its values,
// or all of it.
func eachPart(s *yaml.Node, visit func(keyword, name string, part *yaml.Node)) {
	for keyword, value := range members(s) {
		if slices.Contains(alternativeKeywords, keyword) {
			for i, part := range value.Content {
				visit(keyword, strconv.Itoa(i), part)
			}
		}
	}
	eachSubschema(s, visit)
}

// simplify gives s and its parts forms that all generators know: one value as a constant,
// anything as an empty object, lists with a schema of their items, and a type for each
// alternative of a union that has an object or an enumeration.
func (n *typeNamer) simplify(s *yaml.Node) {
	if s.Kind == yaml.ScalarNode && s.Value == "true" {
		*s = *newNode(map[string]any{})
	}
	eachPart(s, func(keyword, _ string, part *yaml.Node) {
		if keyword != "additionalProperties" || part.Kind == yaml.MappingNode {
			n.simplify(part)
		}
	})
	if slices.Contains(typesOf(s), "array") && memberNode(s, "items") == nil {
		putNode(s, "items", newNode(map[string]any{}))
	}
	if words := memberNode(s, "enum"); words != nil && len(words.Content) == 1 {
		takeMember(s, "enum")
		putNode(s, "const", words.Content[0])
	}
	n.separateParts(s)
	if extended := takeMember(s, "allOf"); extended != nil {
		if rules := takeRules(s); len(rules.Content) > 0 { // some programs ignore the keywords beside a reference
			extended.Content = append(extended.Content, rules)
		}
		putNode(s, "allOf", extended)
	}
	if types := typesOf(s); len(types) > 1 && (memberNode(s, "properties") != nil || memberNode(s, "enum") != nil) {
		separate(s, types)
	}
}

// typesOf returns the types that a schema names.
func typesOf(s *yaml.Node) (all []string) {
	types := memberNode(s, "type")
	if types == nil {
		return nil
	}
	for _, kind := range slices.Concat([]*yaml.Node{types}, types.Content) {
		if kind.Value != "" {
			all = append(all, kind.Value)
		}
	}
	return all
}

// rulesOf are the keywords that concern one type.
var rulesOf = map[string][]string{
	"object":  {"required", "properties", "additionalProperties", "propertyNames", "minProperties", "maxProperties"},
	"array":   {"items", "minItems", "maxItems"},
	"string":  {"enum", "const", "pattern", "format", "minLength", "maxLength"},
	"number":  {"minimum", "maximum"},
	"integer": {"minimum", "maximum"},
}

// separate turns a schema of several types into alternatives of one type each.
func separate(s *yaml.Node, types []string) {
	var all []any
	takeMember(s, "type")
	for _, kind := range types {
		part := ordered("type", kind)
		for _, keyword := range rulesOf[kind] {
			if rule := takeMember(s, keyword); rule != nil {
				if keyword == "enum" {
					rule.Content = slices.DeleteFunc(rule.Content, isNull)
				}
				putNode(part, keyword, rule)
			}
		}
		all = append(all, part)
	}
	putNode(s, "anyOf", newNode(all))
}

func isNull(n *yaml.Node) bool { return n.Tag == "!!null" }

// permitsNull reports whether a schema is that of null.
func permitsNull(s *yaml.Node) bool { return slices.Equal(typesOf(s), []string{"null"}) }

// takeNull removes null from the values that a schema permits, and reports whether it was one
// of several.
func takeNull(s *yaml.Node) bool {
	if parts := memberNode(s, "anyOf"); parts != nil && slices.ContainsFunc(parts.Content, permitsNull) {
		parts.Content = slices.DeleteFunc(parts.Content, permitsNull)
		if len(parts.Content) == 1 {
			takeMember(s, "anyOf")
			only := parts.Content[0]
			if memberNode(only, "$ref") != nil {
				only = ordered("allOf", []any{only})
			}
			s.Content = append(s.Content, only.Content...)
		}
		return true
	}
	types := memberNode(s, "type")
	if types == nil || types.Kind != yaml.SequenceNode || !slices.Contains(typesOf(s), "null") {
		return false
	}
	types.Content = slices.DeleteFunc(types.Content, func(kind *yaml.Node) bool { return kind.Value == "null" })
	if len(types.Content) == 1 {
		*types = *types.Content[0]
	}
	return true
}

// nameParts names the types in a type of a name.
func (n *typeNamer) nameParts(s *yaml.Node, name string) {
	var unnamed []*yaml.Node
	eachPart(s, func(keyword, member string, part *yaml.Node) {
		switch keyword {
		case "properties":
			n.name(part, name+inPascalCase(member))
		case "items":
			n.name(part, name+"Item")
		case "additionalProperties":
			n.name(part, name+"Value")
		case "allOf": // a part of this type
			n.nameParts(part, name)
		case "anyOf":
			if isType(part) && memberNode(part, "title") == nil {
				unnamed = append(unnamed, part)
			} else {
				n.name(part, name)
			}
		}
	})
	for _, part := range unnamed {
		kind := "Object"
		if memberNode(part, "enum") != nil {
			kind = "Word"
		}
		if len(unnamed) == 1 && n.component(name) == nil {
			kind = ""
		}
		n.name(part, name+kind)
	}
}

// isType reports whether a schema is of a type that generators name.
func isType(s *yaml.Node) bool {
	extended := memberNode(s, "allOf")
	return memberNode(s, "properties") != nil || memberNode(s, "enum") != nil || extended != nil && len(extended.Content) > 1
}

// name makes a component of s if it is a type, and of the types in it. The component's name is the
// title of s, or else name.
func (n *typeNamer) name(s *yaml.Node, name string) {
	if title := componentName(s); title != "" {
		name = title
	}
	if !isType(s) {
		n.nameParts(s, name)
		return
	}
	component := copyNode(s)
	n.add(name, component)
	n.nameParts(component, name)
	*s = *newNode(referenceTo("schemas", name))
}

// add adds a component. Its name must be new.
func (n *typeNamer) add(name string, component *yaml.Node) {
	if n.component(name) != nil {
		n.errs = append(n.errs, fmt.Errorf("two types have the name %s: one needs a title", name))
		return
	}
	putNode(n.schemas, name, component)
}

// separateParts turns an enumeration into two if words of it fold into one name. One of the two
// has the words that name a part of a setting, such as reasoning.effort.
func (n *typeNamer) separateParts(s *yaml.Node) {
	words := memberNode(s, "enum")
	if words == nil || !areFolding(words.Content) {
		return
	}
	title := memberNode(s, "title")
	if title == nil {
		n.errs = append(n.errs, fmt.Errorf("an enumeration with words that fold into one name needs a title: %s", words.Content[0].Value))
		return
	}
	var names, parts []*yaml.Node
	for _, word := range words.Content {
		if strings.Contains(word.Value, ".") {
			parts = append(parts, word)
		} else {
			names = append(names, word)
		}
	}
	if areFolding(names) || areFolding(parts) {
		n.errs = append(n.errs, fmt.Errorf("%s has words that fold into one name", title.Value))
	}
	takeMember(s, "type")
	takeMember(s, "enum")
	putNode(s, "anyOf", newNode([]any{
		ordered("title", title.Value+" name", "description", "A setting as a whole.", "type", "string", "enum", names),
		ordered("title", title.Value+" part", "description", "A part of a setting.", "type", "string", "enum", parts),
	}))
}

// areFolding reports whether generators give two of the words one name.
func areFolding(words []*yaml.Node) bool {
	names := make(map[string]bool)
	for _, word := range words {
		names[fold(word.Value)] = true
	}
	return len(names) < len(words)
}

// fold returns what the names that generators give to a word have in common.
func fold(word string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, word)
}

func (n *typeNamer) component(name string) *yaml.Node { return memberNode(n.schemas, name) }

// inPascalCase returns a member's name as a part of a type's name.
func inPascalCase(member string) string {
	var name strings.Builder
	for word := range strings.FieldsFuncSeq(member, func(r rune) bool { return r == '_' || r == '-' || r == '.' }) {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

// passNull lets the references in s permit null where their target did.
func (n *typeNamer) passNull(s *yaml.Node) {
	eachPart(s, func(keyword, _ string, part *yaml.Node) {
		if keyword == "additionalProperties" && part.Kind != yaml.MappingNode {
			return
		}
		n.passNull(part)
		switch {
		case keyword == "anyOf", keyword == "allOf":
		case n.leadsToNull(part):
			*part = *ordered("anyOf", []any{copyNode(part), map[string]string{"type": "null"}})
		case n.allPermitNull(memberNode(part, "allOf")): // of one reference, since others are types
			extended := takeMember(part, "allOf")
			putNode(part, "anyOf", newNode([]any{extended.Content[0], map[string]string{"type": "null"}}))
		}
	})
	if parts := memberNode(s, "anyOf"); parts != nil && slices.ContainsFunc(parts.Content, n.leadsToNull) && !slices.ContainsFunc(parts.Content, permitsNull) {
		parts.Content = append(parts.Content, newNode(map[string]string{"type": "null"}))
	}
}

// allPermitNull reports whether the parts of allOf permitted null together.
func (n *typeNamer) allPermitNull(parts *yaml.Node) bool {
	if parts == nil || !slices.ContainsFunc(parts.Content, n.leadsToNull) {
		return false
	}
	return !slices.ContainsFunc(parts.Content, func(part *yaml.Node) bool {
		return !n.leadsToNull(part) && (memberNode(part, "$ref") != nil || memberNode(part, "type") != nil)
	})
}

// leadsToNull reports whether s is a reference to a component that permitted null.
func (n *typeNamer) leadsToNull(s *yaml.Node) bool {
	ref := memberNode(s, "$ref")
	return ref != nil && n.nullable[strings.TrimPrefix(ref.Value, "#/components/schemas/")]
}
