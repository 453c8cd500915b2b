package schema

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// MaxValues bounds the number of values in a body that the rules look at. Values without a
// rule do not count. These are unknown members, the content of input or of a function's
// parameters, and most messages of a conversation. A member whose only rule is its type does
// not count if it has that type. An object counts twice, and a member once more for every 64
// bytes of its name.
const MaxValues = 16384

var errTooManyValues = fmt.Errorf("has too much to check: more than %d values", MaxValues)

// opaque is a value without rules. The validator does not look into it.
type opaque jsontext.Value

// emptyObject and emptyArray stand for all objects and arrays whose content the validator
// does not need. It does not write to them.
var (
	emptyObject = map[string]any{}
	emptyArray  = []any{}
)

// emptyName stands for the empty name of a member, which the validator leaves out of
// locations. It is not UTF-8, so no client can send it.
const emptyName = "\xff"

// view decodes those of members that have rules. It leaves out everything else, so the
// cost of a check does not depend on a body's size and shape. Every error is an *Error.
func (s *Schema) view(members []rawjson.Member) (map[string]any, error) {
	d := decoder{left: MaxValues}
	view := make(map[string]any, min(len(members), 16))
	for _, m := range members {
		schemas, counted := s.rules.member(m.Name)
		if !counted && meetAll(schemas, m.Value) {
			continue
		}
		value, err := d.value(m.Value, schemas)
		if err != nil {
			return nil, violation("/"+m.Name, err.Error())
		}
		view[m.Name] = value
	}
	return view, nil
}

// rules are the schemas that apply to one value: its own, and those that they apply to the
// same value.
type rules []*jsonschema.Schema

// add adds schemas, and the schemas that they apply in place to v.
func (r rules) add(v jsontext.Value, schemas ...*jsonschema.Schema) rules {
	for _, s := range schemas {
		if s == nil || slices.Contains(r, s) {
			continue
		}
		r = append(r, s)
		if s.Ref != nil || s.Not != nil || s.If != nil {
			r = r.add(v, s.Ref, s.Not, s.If, s.Then, s.Else)
		}
		if d := discriminatorOf(s); d != nil && v.Kind() == '{' {
			if chosen := d.choose(string(textOf(v, d.property))); chosen != nil {
				r = r.add(v, chosen.schema)
			}
		}
	}
	return r
}

// shallow returns the rule that looks at the surface of the value alone, nil if there is none
// or another rule looks at it whole.
func (r rules) shallow() (sh *shallow) {
	for _, s := range r {
		switch own := shallowOf(s); {
		case own != nil:
			sh = own
		case hasRules(s):
			return nil
		}
	}
	return sh
}

// member returns the schemas of a member, and whether a rule depends on its presence.
func (r rules) member(name string) (schemas []*jsonschema.Schema, counted bool) {
	for _, s := range r {
		if sub := s.Properties[name]; sub != nil {
			schemas = append(schemas, sub)
		} else if a := additional(s); a != nil {
			schemas = append(schemas, a)
		}
		counted = counted || countsMembers(s) || slices.Contains(s.Required, name)
	}
	return schemas, counted
}

// meetAll reports whether schemas have no rule but a type, and v has it. Most values do,
// and are left out of the view, because the validator is slow.
func meetAll(schemas []*jsonschema.Schema, v jsontext.Value) bool {
	kind := v.Kind()
	return len(schemas) == 0 || kind != '0' && !slices.ContainsFunc(schemas, func(s *jsonschema.Schema) bool {
		return s.Ref != nil || asksMoreThanType(s) || !slices.Contains(s.Types, kinds[kind].name)
	})
}

func countsMembers(s *jsonschema.Schema) bool {
	return s.PropertyNames != nil || s.MinProperties >= 0 || s.MaxProperties >= 0
}

func hasMemberRules(s *jsonschema.Schema) bool {
	return len(s.Properties)+len(s.Required) > 0 || additional(s) != nil || countsMembers(s)
}

// decoder decodes the values of one body.
type decoder struct {
	left int // the rest of MaxValues
}

func (d *decoder) value(v jsontext.Value, schemas []*jsonschema.Schema) (any, error) {
	if d.left--; d.left < 0 {
		return nil, errTooManyValues
	}
	var room [8]*jsonschema.Schema
	r := rules(room[:0]).add(v, schemas...)
	if sh := r.shallow(); sh != nil {
		return d.skim(sh.surface, v)
	}
	if !slices.ContainsFunc(r, hasRules) {
		return opaque(v), nil
	}
	switch v.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return v[0] == 't', nil
	case '"':
		return string(unquote(v)), nil
	case '0':
		return strconv.ParseFloat(string(v), 64) // in whose range it is
	case '{':
		return d.object(v, r)
	default:
		return d.array(v, r)
	}
}

// unquote decodes a string from a body that was read strictly.
func unquote(quoted jsontext.Value) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		panic(err)
	}
	return text
}

func (d *decoder) object(v jsontext.Value, r rules) (any, error) {
	d.left--
	if !slices.ContainsFunc(r, hasMemberRules) {
		return emptyObject, nil
	}
	most := 0 // the number of members to decode, one more than a rule allows; 0 for all
	for _, s := range r {
		most = max(most, s.MaxProperties+1)
	}
	view := make(map[string]any)
	for quoted, v := range rawjson.Pairs(v) {
		name := string(unquote(quoted))
		schemas, counted := r.member(name)
		if !counted && meetAll(schemas, v) {
			continue
		}
		d.left -= len(name) / 64
		value, err := d.value(v, schemas)
		if err != nil {
			return nil, err
		}
		if view[cmp.Or(name, emptyName)] = value; most > 0 && len(view) == most {
			break
		}
	}
	return view, nil
}

func (d *decoder) array(v jsontext.Value, r rules) (any, error) {
	var schemas []*jsonschema.Schema
	counted := false
	for _, s := range r {
		if s.Items2020 != nil {
			schemas = append(schemas, s.Items2020)
		}
		counted = counted || s.MinItems >= 0 || s.MaxItems >= 0
	}
	if !counted && schemas == nil {
		return emptyArray, nil
	}
	var view []any
	met := !counted
	for _, v := range rawjson.Items(v) {
		met = met && meetAll(schemas, v)
		value, err := d.value(v, schemas)
		if err != nil {
			return nil, err
		}
		view = append(view, value)
	}
	if met {
		return emptyArray, nil
	}
	return view, nil
}

// hasRules reports whether s has rules of its own, apart from a reference.
func hasRules(s *jsonschema.Schema) bool {
	return len(s.Types) > 0 || asksMoreThanType(s)
}

func asksMoreThanType(s *jsonschema.Schema) bool {
	return len(s.Enum)+len(s.Constant)+len(s.Required)+len(s.Properties)+len(s.Extensions) > 0 ||
		s.Not != nil || s.If != nil || s.PropertyNames != nil || s.AdditionalProperties != nil || s.Items2020 != nil ||
		s.Pattern != nil || s.Minimum != nil || s.Maximum != nil || s.MinLength >= 0 || s.MaxLength >= 0 ||
		s.MinItems >= 0 || s.MaxItems >= 0 || s.MinProperties >= 0 || s.MaxProperties >= 0
}

// additional returns the schema of members that s does not name, or nil.
func additional(s *jsonschema.Schema) *jsonschema.Schema {
	a, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return a
}
