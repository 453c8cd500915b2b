package schema

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxValues bounds how many values of one body the rules look at. What no rule
// looks at does not count: unknown members, the insides of input, of a function's
// parameters and the like, and most of the messages of a conversation. An object
// counts twice, and a member once more for every 64 bytes of its name.
const MaxValues = 16384

var errTooManyValues = fmt.Errorf("has too much to check: more than %d values", MaxValues)

// opaque is a value that the validator passes by.
type opaque jsontext.Value

// The validator does not write to values, so one empty object and one empty
// array are enough for all that are looked at only from outside.
var (
	emptyObject = map[string]any{}
	emptyArray  = []any{}
)

// view returns what the validator sees of object. Every error is an *Error.
func (p *plan) view(object Object) (map[string]any, error) {
	b := builder{left: MaxValues}
	view := make(map[string]any, min(len(object.members), len(p.members)))
	for _, m := range object.members {
		known := p.members[m.name]
		if known == nil {
			continue
		}
		value, err := b.value(known, m.value)
		if err != nil {
			return nil, violation("/"+m.name, err.Error())
		}
		if known.kept || !known.settles(m.value, value) {
			view[m.name] = value
		}
	}
	return view, nil
}

// emptyName stands for the empty name of a member, which the validator leaves
// out of locations. It is not UTF-8, so no client can send it.
const emptyName = "\xff"

// builder builds the views of one body.
type builder struct {
	left int // of MaxValues
}

func (b *builder) value(p *plan, v jsontext.Value) (any, error) {
	if b.left--; b.left < 0 {
		return nil, errTooManyValues
	}
	if p.surface != nil {
		return b.skim(p, v)
	}
	if !p.typed {
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
		return number(v)
	case '{':
		return b.object(p, v)
	default:
		return b.array(p, v)
	}
}

// settles tells whether a value keeps all its rules, which can be known here
// if they are about types, or lists of values: of the value v, and of what is
// inside, which then is not in its view. Most values are like that, and the
// validator, whose sight costs far more, need not see them.
func (p *plan) settles(v jsontext.Value, view any) bool {
	if p.values != nil {
		return slices.Contains(p.values, view)
	}
	switch inside := view.(type) {
	case map[string]any:
		if len(inside) > 0 {
			return false
		}
	case []any:
		if len(inside) > 0 {
			return false
		}
	}
	name := typeOf(v)
	return slices.Contains(p.types, name) ||
		name == "number" && !bytes.ContainsAny(v, ".eE") && slices.Contains(p.types, "integer")
}

func (b *builder) object(p *plan, v jsontext.Value) (any, error) {
	b.left--
	if p.selector != "" {
		p = p.variant(v)
	}
	if len(p.members) == 0 && p.rest == nil {
		return emptyObject, nil
	}
	view := make(map[string]any)
	for quoted, v := range members(v) {
		name := unquote(quoted)
		known := p.members[string(name)]
		if known == nil {
			known = p.rest
		}
		if known == nil {
			continue
		}
		b.left -= len(name) / 64
		value, err := b.value(known, v)
		if err != nil {
			return nil, err
		}
		if known.kept || !known.settles(v, value) {
			view[cmp.Or(string(name), emptyName)] = value
		}
		if p.most > 0 && len(view) == p.most {
			break
		}
	}
	return view, nil
}

// variant returns the plan that v selects. It looks ahead for the selector,
// which clients usually put first, because members before it need the plan.
func (p *plan) variant(v jsontext.Value) *plan {
	if variant := p.variants[string(textOf(v, p.selector))]; variant != nil {
		return variant
	}
	return p.otherwise
}

func (b *builder) array(p *plan, v jsontext.Value) (any, error) {
	if p.items == nil {
		return emptyArray, nil
	}
	var view []any
	settled := p.types != nil
	for _, v := range items(v) {
		value, err := b.value(p.items, v)
		if err != nil {
			return nil, err
		}
		view = append(view, value)
		if p.most > 0 && len(view) == p.most {
			break
		}
		settled = settled && p.items.settles(v, value)
	}
	if settled {
		return emptyArray, nil
	}
	return view, nil
}
