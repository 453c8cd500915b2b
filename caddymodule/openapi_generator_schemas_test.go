package caddymodule

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// schemaFiles are the schema files during their conversion into the document. A schema that
// another one references is named by its file, or by file and place. Examples are
// "tools.json" and "tools.json#/$defs/function".
type schemaFiles struct {
	roots map[string]*yaml.Node // by file
	uses  map[string][]use      // by the referenced schema's name
}

// use is one reference to a schema. Without a property it is a plain reference.
type use struct {
	property, values string // the values of a discriminator's property that select it
	base             string // the schema that extends it, if that is one of $defs
	otherwise        bool   // it is the default of a discriminator
}

// readFiles reads the schema files of a folder and finds their references.
func readFiles(folder string) (schemaFiles, error) {
	f := schemaFiles{make(map[string]*yaml.Node), make(map[string][]use)}
	names, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return f, err
	}
	for _, file := range names {
		if f.roots[filepath.Base(file)], err = readNode(file); err != nil {
			return f, fmt.Errorf("%s: %w", file, err)
		}
	}
	for file, root := range f.roots {
		f.findUses(root, file, "")
	}
	return f, nil
}

// findUses records each reference in s. place is the name of s if it is one of $defs.
func (f schemaFiles) findUses(s *yaml.Node, file, place string) {
	note := func(target string, u use) {
		target = absolute(target, file)
		f.uses[target] = append(f.uses[target], u)
	}
	if ref := memberNode(s, "$ref"); ref != nil {
		note(ref.Value, use{base: place})
	}
	if d := memberNode(s, "discriminator"); d != nil {
		for _, v := range variantsOf(d) {
			note(v.target, use{property: v.property, values: strings.Join(v.values, "\n"), otherwise: v.values == nil})
		}
	}
	eachSubschema(s, func(keyword, name string, sub *yaml.Node) {
		place := ""
		if keyword == "$defs" {
			place = file + "#/$defs/" + name
		}
		f.findUses(sub, file, place)
	})
}

// absolute returns the name of the schema that a reference in a file leads to.
func absolute(target, file string) string {
	if strings.HasPrefix(target, "#") {
		return file + target
	}
	return target
}

// at returns the schema of a name, nil if there is none. A schema is a file or one of a
// file's $defs. Deeper schemas cannot be components.
func (f schemaFiles) at(name string) *yaml.Node {
	file, place, deeper := strings.Cut(name, "#")
	s := f.roots[file]
	if !deeper || s == nil {
		return s
	}
	definition, ok := strings.CutPrefix(place, "/$defs/")
	if definitions := memberNode(s, "$defs"); ok && definitions != nil {
		return memberNode(definitions, definition)
	}
	return nil
}

// nameOf returns the component for a schema's name, empty if there is none.
func (f schemaFiles) nameOf(name string) string {
	if s := f.at(name); s != nil {
		return componentName(s)
	}
	return ""
}

// componentName returns a schema's title in one word, empty if it has none.
func componentName(s *yaml.Node) string {
	title := memberNode(s, "title")
	if title == nil {
		return ""
	}
	words := strings.Fields(title.Value)
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// selection returns the property and values that select a schema, nil if it has other uses.
func (f schemaFiles) selection(name string) *variant {
	found := make(map[use]bool)
	f.addUses(found, name)
	if len(found) != 1 {
		return nil
	}
	for u := range found {
		if u.values != "" {
			return &variant{property: u.property, values: strings.Split(u.values, "\n")}
		}
	}
	return nil
}

// addUses adds the uses of a schema. An extended schema inherits the uses of its extension.
func (f schemaFiles) addUses(found map[use]bool, name string) {
	for _, u := range f.uses[name] {
		if u.base != "" && len(f.uses[u.base]) > 0 {
			f.addUses(found, u.base)
		} else {
			found[u] = true
		}
	}
}

// variant is the target of a discriminator for some values of its property. The default has
// no values.
type variant struct {
	property string
	values   []string
	target   string
}

// variantsOf returns the variants of a discriminator in their order.
func variantsOf(discriminator *yaml.Node) (all []*variant) {
	property := memberNode(discriminator, "propertyName").Value
	byTarget := make(map[string]*variant)
	for value, target := range members(memberNode(discriminator, "mapping")) {
		v := byTarget[target.Value]
		if v == nil {
			v = &variant{property: property, target: target.Value}
			byTarget[target.Value] = v
			all = append(all, v)
		}
		v.values = append(v.values, value)
	}
	if target := memberNode(discriminator, "defaultMapping"); target != nil {
		all = append(all, &variant{property: property, target: target.Value})
	}
	return all
}

// schemaName is the syntax of a component's name, which becomes a type in generated
// clients.
var schemaName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// addFiles adds the schemas of all bodies and those that they reference. A schema with a
// title becomes a component of that name.
func (d *openAPI) addFiles(bodies []string) error {
	w := schemaWriter{schemaFiles: d.files, made: make(map[string]component)}
	for name := range members(d.schemas) {
		if !slices.Contains(conversation, name) {
			w.made[name] = component{source: "base.yaml"}
		}
	}
	for _, file := range bodies {
		w.addSchema(file)
	}
	for _, name := range slices.Sorted(maps.Keys(w.made)) {
		if s := w.made[name].schema; s != nil {
			restyle(s)
			putNode(d.schemas, name, s)
		}
	}
	return errors.Join(w.errs...)
}

// schemaWriter converts schema files into components. A validator accepts the same values
// as with the files. Generators of clients understand them: each variant is a type, and no
// reference points into a component.
type schemaWriter struct {
	schemaFiles
	made map[string]component // by name
	errs []error
}

type component struct {
	source string     // the schema's source
	schema *yaml.Node // nil for those of openAPIBase
}

// conversation are the components of openAPIBase that replace schemas of the same title. A
// preset does not keep a conversation, so the schema files check less of it.
var conversation = []string{"ChatUserMessage", "ChatAssistantMessage", "ChatToolMessage", "MessagesMessage", "ResponsesItem"}

// addSchema makes a component of the schema of a name and returns a reference to it.
func (w *schemaWriter) addSchema(name string) map[string]string {
	s := w.at(name)
	if s == nil {
		w.errs = append(w.errs, fmt.Errorf("%s is neither a schema file nor one of its $defs", name))
		return nil
	}
	file, _, _ := strings.Cut(name, "#")
	return w.lift(s, file, name)
}

// lift makes a component of a schema of a file and returns a reference to it. source
// identifies the schema. Two schemas with the same title are an error.
func (w *schemaWriter) lift(s *yaml.Node, file, source string) map[string]string {
	name := componentName(s)
	reference := referenceTo("schemas", name)
	made, again := w.made[name]
	switch {
	case !schemaName.MatchString(name):
		w.errs = append(w.errs, fmt.Errorf("%s: has no title of letters and digits, which names it in the document: %q", source, name))
	case again && made.source != source:
		w.errs = append(w.errs, fmt.Errorf("%s and %s have the same title: %s", made.source, source, name))
	case again, slices.Contains(conversation, name):
	default:
		s = copyNode(s)
		w.made[name] = component{source, s}
		w.convert(s, file, source)
		w.restrict(s, source)
	}
	return reference
}

// restrict makes a component that a discriminator selects an object. It gets the values
// that select it, unless it has other uses. The default permits any members.
func (w *schemaWriter) restrict(s *yaml.Node, source string) {
	uses := w.uses[source]
	if v := w.selection(source); v != nil {
		v.restrict(s)
	} else if slices.ContainsFunc(uses, func(u use) bool { return u.property != "" }) {
		setType(s, "object")
	}
	if slices.ContainsFunc(uses, func(u use) bool { return u.otherwise }) && memberNode(s, "additionalProperties") == nil {
		putNode(s, "additionalProperties", newNode(true))
	}
}

// setType gives a schema a type if it has none.
func setType(s *yaml.Node, kind string) {
	if memberNode(s, "type") == nil {
		putNode(s, "type", newNode(kind))
	}
}

// convert replaces the keywords of the schema package and those that generators do not
// understand. place is for errors.
func (w *schemaWriter) convert(s *yaml.Node, file, place string) {
	for _, keyword := range []string{"$schema", "$id", "$defs", "errorMessage"} {
		takeMember(s, keyword)
	}
	if surface := takeMember(s, "shallow"); surface != nil { // only rules that hold for any value are kept
		s.Content = append(s.Content, surface.Content...)
	}
	if rest := memberNode(s, "additionalProperties"); rest != nil && isNothing(rest) {
		*rest = *newNode(false) // in a form that generators know
	}
	alternatives, words := w.alternatives(s, file), takeWords(s)
	eachSubschema(s, func(keyword, name string, sub *yaml.Node) {
		place := place + "/" + keyword + "/" + name
		if memberNode(sub, "title") != nil {
			*sub = *newNode(w.lift(sub, file, place))
			return
		}
		w.convert(sub, file, place)
		if keyword == "properties" {
			nameRequired(sub)
		}
	})
	if ref := takeMember(s, "$ref"); ref != nil {
		reference := w.addSchema(absolute(ref.Value, file))
		if len(s.Content) == 0 {
			*s = *newNode(reference)
			return
		}
		parts := []any{reference} // some programs ignore the keywords beside $ref
		if memberNode(s, "required") != nil {
			parts = append(parts, takeRules(s))
		}
		putNode(s, "allOf", newNode(parts))
	}
	if alternatives != nil || words != nil {
		w.split(s, alternatives, words)
	}
	openObject(s)
}

// alternatives removes the discriminator from a schema and returns a schema for each
// variant. A discriminator in then applies to objects with its property, and else to
// others. The schema package requires the property.
func (w *schemaWriter) alternatives(s *yaml.Node, file string) (all []any) {
	discriminator := takeMember(s, "discriminator")
	then := memberNode(s, "then")
	var without string // what an object without the property is
	if then != nil && memberNode(then, "discriminator") != nil {
		discriminator = memberNode(then, "discriminator")
		without = absolute(memberNode(takeMember(s, "else"), "$ref").Value, file)
		takeMember(s, "if")
		takeMember(s, "then")
	}
	if discriminator == nil {
		return nil
	}
	var known []string
	for _, v := range variantsOf(discriminator) {
		known = append(known, v.values...)
		name := absolute(v.target, file)
		target := w.at(name)
		switch {
		case target != nil && w.refuses(target, v.property, name):
		case name == without: // the property is optional
			all = append(all, w.addSchema(name))
			v.restrictIfGiven(w.made[componentName(target)].schema)
		case v.values == nil && len(w.uses[name]) == 1:
			all = append(all, w.addSchema(name))
			other := w.made[componentName(target)].schema
			putNode(other, "required", newNode([]string{v.property}))
			putNode(memberNode(memberNode(other, "properties"), v.property), "not", newNode(map[string]any{"enum": known}))
		case v.values == nil:
			others := map[string]any{v.property: map[string]any{"description": "A kind that no other alternative has.", "not": map[string]any{"enum": known}}}
			title := "Other " + memberNode(s, "title").Value
			all = append(all, ordered("title", title, "allOf", []any{w.addSchema(name)}, "required", []string{v.property}, "properties", others))
		default:
			all = append(all, w.addSchema(name))
		}
	}
	return all
}

// refuses reports whether a schema permits no value of a property.
func (w *schemaWriter) refuses(s *yaml.Node, property, name string) bool {
	properties := memberNode(s, "properties")
	if properties == nil || memberNode(properties, property) == nil {
		return false
	}
	ref := memberNode(memberNode(properties, property), "$ref")
	if ref == nil {
		return false
	}
	file, _, _ := strings.Cut(name, "#")
	rule := w.at(absolute(ref.Value, file))
	if rule == nil {
		return false
	}
	return isNothing(rule)
}

// isNothing reports whether a schema permits no value.
func isNothing(s *yaml.Node) bool {
	not := memberNode(s, "not")
	return not != nil && len(not.Content) == 0
}

// restrict makes a schema an object of the variant. It keeps a schema that has more rules
// for the property.
func (v *variant) restrict(s *yaml.Node) {
	setType(s, "object")
	required := []string{v.property}
	if given := takeMember(s, "required"); given != nil {
		for _, name := range given.Content {
			if name.Value != v.property {
				required = append(required, name.Value)
			}
		}
	}
	putNode(s, "required", newNode(required))
	v.restrictIfGiven(s)
}

// restrictIfGiven is restrict for a variant that is also that of objects without its property.
func (v *variant) restrictIfGiven(s *yaml.Node) {
	properties := takeMember(s, "properties")
	if properties == nil {
		properties = newNode(map[string]string{})
	}
	if memberNode(properties, v.property) == nil {
		value := ordered("type", "string", "enum", v.values)
		if title := memberNode(s, "title"); title != nil && len(v.values) > 1 {
			value = ordered("description", "A kind of "+strings.ToLower(title.Value[:1])+title.Value[1:]+".", "type", "string", "enum", v.values)
		}
		properties.Content = append([]*yaml.Node{newNode(v.property), value}, properties.Content...)
	}
	putNode(s, "properties", properties)
}

// takeWords removes the enumeration of a string from a schema and returns its words.
func takeWords(s *yaml.Node) *yaml.Node {
	condition, then := memberNode(s, "if"), memberNode(s, "then")
	if condition == nil || then == nil || len(condition.Content) != 2 || len(then.Content) != 2 {
		return nil
	}
	kind, words := memberNode(condition, "type"), memberNode(then, "enum")
	if kind == nil || kind.Value != "string" || words == nil {
		return nil
	}
	takeMember(s, "if")
	takeMember(s, "then")
	return words
}

// split turns a schema of several types into anyOf with one type each. An object is one of
// the alternatives, if any, and a string one of the words.
func (w *schemaWriter) split(s *yaml.Node, alternatives []any, words *yaml.Node) {
	var all []any
	types := takeMember(s, "type")
	for _, kind := range slices.Concat([]*yaml.Node{types}, types.Content) {
		switch kind.Value {
		case "": // the list
		case "string":
			text := ordered("type", "string")
			if words != nil {
				putNode(text, "enum", words)
			}
			all = append(all, text)
		case "object":
			required, properties := takeMember(s, "required"), takeMember(s, "properties")
			if alternatives != nil { // each has what is required
				w.share(properties, alternatives)
				all = append(all, alternatives...)
				continue
			}
			object := ordered("type", "object")
			if required != nil {
				putNode(object, "required", required)
			}
			if properties != nil {
				putNode(object, "properties", properties)
			}
			openObject(object)
			all = append(all, object)
		default:
			all = append(all, ordered("type", kind.Value))
		}
	}
	putNode(s, "anyOf", newNode(all))
}

// share adds the properties of all alternatives to each of them. The alternatives are components
// that have no other use.
func (w *schemaWriter) share(properties *yaml.Node, alternatives []any) {
	if properties == nil {
		return
	}
	for _, alternative := range alternatives {
		reference, _ := alternative.(map[string]string)
		made, ok := w.made[strings.TrimPrefix(reference["$ref"], "#/components/schemas/")]
		if !ok || w.selection(made.source) == nil {
			w.errs = append(w.errs, fmt.Errorf("%v cannot get the properties of all alternatives", alternative))
			continue
		}
		own := memberNode(made.schema, "properties")
		own.Content = append(own.Content, copyNode(properties).Content...)
	}
}

// openObject permits objects without properties any members. For a validator this changes
// nothing. Generators would take them for empty objects.
func openObject(s *yaml.Node) {
	types := memberNode(s, "type")
	if types == nil || types.Value != "object" && !slices.ContainsFunc(types.Content, func(n *yaml.Node) bool { return n.Value == "object" }) {
		return
	}
	for _, keyword := range []string{"properties", "additionalProperties", "allOf", "anyOf"} {
		if memberNode(s, keyword) != nil {
			return
		}
	}
	putNode(s, "additionalProperties", newNode(true))
}

// takeRules moves the rules of a schema into a new schema.
func takeRules(s *yaml.Node) *yaml.Node {
	rules := &yaml.Node{Kind: yaml.MappingNode}
	for keyword := range members(copyNode(s)) {
		if !slices.Contains([]string{"title", "description", "deprecated", "default", "examples"}, keyword) {
			putNode(rules, keyword, takeMember(s, keyword))
		}
	}
	nameRequired(rules)
	return rules
}

// nameRequired lists a schema's required members among its properties. Generators require
// only listed properties.
func nameRequired(s *yaml.Node) {
	required := memberNode(s, "required")
	if required == nil || memberNode(s, "allOf") != nil || memberNode(s, "anyOf") != nil {
		return
	}
	properties := takeMember(s, "properties")
	if properties == nil {
		properties = newNode(map[string]any{})
	}
	for _, name := range required.Content {
		if memberNode(properties, name.Value) == nil {
			putNode(properties, name.Value, newNode(map[string]any{}))
		}
	}
	putNode(s, "properties", properties)
}

// eachSubschema calls visit with each direct subschema of s, its keyword, and its name or
// number.
func eachSubschema(s *yaml.Node, visit func(keyword, name string, sub *yaml.Node)) {
	for keyword, value := range members(s) {
		switch keyword {
		case "properties", "$defs":
			for name, sub := range members(value) {
				visit(keyword, name, sub)
			}
		case "items", "additionalProperties", "propertyNames", "not", "if", "then", "else", "shallow":
			visit(keyword, "", value)
		}
	}
}

// members yields the members of a mapping in order, and none of another node.
func members(object *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		if object == nil || object.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i < len(object.Content); i += 2 {
			if !yield(object.Content[i].Value, object.Content[i+1]) {
				return
			}
		}
	}
}

// takeMember removes a member of a mapping and returns it, nil if it is missing.
func takeMember(object *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(object.Content); i += 2 {
		if object.Kind == yaml.MappingNode && object.Content[i].Value == name {
			value := object.Content[i+1]
			object.Content = slices.Delete(object.Content, i, i+2)
			return value
		}
	}
	return nil
}

// ordered returns a mapping of names and values in their order.
func ordered(pairs ...any) *yaml.Node {
	object := &yaml.Node{Kind: yaml.MappingNode}
	for pair := range slices.Chunk(pairs, 2) {
		value, ok := pair[1].(*yaml.Node)
		if !ok {
			value = newNode(pair[1])
		}
		putNode(object, pair[0].(string), value)
	}
	return object
}

// copyNode returns a deep copy of n.
func copyNode(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, part := range n.Content {
		c.Content[i] = copyNode(part)
	}
	return &c
}
