package policy

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Where a policy, a key's limits or disabled tools apply, the fields of a request must be known to its
// dialect, each in its form. Both are in dialects/fields.json, from the types of the official clients,
// and e2e compares them with the installed ones.

// form is a form of values. Members of objects may be null, too.
type form struct {
	want string // "a string"
	fits func(value jsontext.Value) bool
}

// forms are the forms of all fields that are sent.
var forms = func() map[string]form {
	all := map[string]form{}
	for name, field := range dialects.Fields {
		if field.Form != nil {
			all[name] = newForm(field.Form)
		}
	}
	return all
}()

// maxListed bounds a list, such as one of models. A list of objects is as long as it likes.
const maxListed = 1024

// words are the forms with names.
var words = map[string]form{
	"string": ofKind("a string", `"`), "number": ofKind("a number", "0"), "boolean": ofKind("a boolean", "tf"), "array": ofKind("an array", "["),
	"model": {"a string of at most " + strconv.Itoa(reference.MaxReference) + " bytes", isModelName},
	"item":  {"an object with each of " + strings.Join(judged[:], ", ") + " at most once, spelled so,", isItem},
	"name":  {"the name of a model", func(value jsontext.Value) bool { return isModelName(value) && !rawjson.IsText(value, "") }},
}

func ofKind(want, kinds string) form {
	return form{want, func(value jsontext.Value) bool { return strings.IndexByte(kinds, byte(value.Kind())) >= 0 }}
}

// isModelName reports whether a value can be the name of a model, or a list of names with commas.
func isModelName(value jsontext.Value) bool {
	name, ok := rawjson.Head(value, reference.MaxReference)
	return ok && len(name) <= reference.MaxReference
}

// newForm returns the form of fields.json: a word, {} for any object, an object with the forms of its members,
// [form] for a list, and [form, form] for one of them. If an object has one member, it is required. The member
// "*16" stands for at most 16 members of any name, and "*" for any number.
func newForm(of any) form {
	switch of := of.(type) {
	case string:
		return words[of]
	case []any:
		either := newForm(of[0])
		if len(of) == 1 {
			return listOf(either)
		}
		for _, one := range of[1:] {
			a, b := either, newForm(one)
			either = form{a.want + " or " + b.want, func(value jsontext.Value) bool { return a.fits(value) || b.fits(value) }}
		}
		return either
	}
	members := map[string]form{}
	for name, one := range of.(map[string]any) { //nolint:forcetypeassert // else the table is wrong
		if most, isMap := strings.CutPrefix(name, "*"); isMap {
			return mapOf(most, newForm(one))
		}
		members[name] = newForm(one)
	}
	if len(members) == 0 {
		return ofKind("an object", "{")
	}
	return form{"an object of " + strings.Join(slices.Sorted(maps.Keys(members)), ", "), func(object jsontext.Value) bool {
		var seen []string
		says := len(members) > 1
		for m, err := range dialects.UsualNames.Object(object) {
			f, known := members[m.Name]
			isNull := m.Value.Kind() == 'n'
			if err != nil || !known || slices.Contains(seen, m.Name) || !isNull && !f.fits(m.Value) {
				return false
			}
			seen, says = append(seen, m.Name), says || !isNull
		}
		return says
	}}
}

func listOf(element form) form {
	which, isOfObjects := strings.CutPrefix(element.want, "an object")
	want := "an array of objects" + which
	if !isOfObjects {
		want = "an array of at most " + strconv.Itoa(maxListed) + ", each " + element.want
	}
	return form{want, func(list jsontext.Value) bool {
		for i, item := range rawjson.Items(list) {
			if i == maxListed && !isOfObjects || !element.fits(item) {
				return false
			}
		}
		return list.Kind() == '['
	}}
}

func mapOf(most string, element form) form {
	limit, _ := strconv.Atoi(most)
	if most != "" {
		most = " of at most " + most + " members"
	}
	return form{"an object" + most + ", each " + element.want, func(object jsontext.Value) bool {
		count := 0
		for _, value := range rawjson.Pairs(object) {
			if count++; limit > 0 && count > limit || value.Kind() != 'n' && !element.fits(value) {
				return false
			}
		}
		return object.Kind() == '{'
	}}
}

// isKnown reports whether requests of a dialect have a field of a name.
func isKnown(dialect domain.Dialect, name string) bool {
	f := dialects.Fields[name]
	return (f.Kept|f.Known)&dialects.SetOf(dialect) != 0 && f.Form != nil
}

// KnownFields returns the names of the fields that requests of a dialect may have where a policy, a
// key's limits or disabled tools apply, sorted.
func KnownFields(dialect domain.Dialect) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(forms)), func(name string) bool { return !isKnown(dialect, name) })
}

// judged are the members by which items of a conversation and of other lists are judged.
var judged = [...]string{"role", "content", "type", "tools", "output_config", "instructions", "search_prompt"}

// isItem reports whether a value is an object whose judged members all gateways read alike: each is there once,
// in this spelling.
func isItem(object jsontext.Value) bool {
	var seen [len(judged)]bool
	for quoted := range rawjson.Pairs(object) {
		i := slices.IndexFunc(judged[:], func(name string) bool { return string(quoted[1:len(quoted)-1]) == name })
		switch {
		case i >= 0 && !seen[i]:
			seen[i] = true
		case i >= 0, slices.ContainsFunc(judged[:], func(name string) bool { return dialects.MayBeName(quoted, name) }):
			return false
		}
	}
	return object.Kind() == '{'
}
