package dialects

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Form is a form of values. Members of objects may be null, too.
type Form struct {
	Want string // "a string"
	Fits func(value jsontext.Value) bool
}

// MaxModel bounds the name of a model, in bytes.
const MaxModel = 4 << 10

// maxListed bounds a list, such as one of models. A list of objects is as long as it likes.
const maxListed = 1024

// words are the forms with names.
var words = map[string]Form{
	"string": ofKind("a string", `"`), "number": ofKind("a number", "0"), "boolean": ofKind("a boolean", "tf"), "array": ofKind("an array", "["),
	"model": {"a string of at most " + strconv.Itoa(MaxModel) + " bytes", IsModelName},
	"item":  {"an object with each of " + strings.Join(judged[:], ", ") + " at most once, spelled so,", isItem},
	"name":  {"the name of a model", func(value jsontext.Value) bool { return IsModelName(value) && !rawjson.IsText(value, "") }},
}

func ofKind(want, kinds string) Form {
	return Form{want, func(value jsontext.Value) bool { return strings.IndexByte(kinds, byte(value.Kind())) >= 0 }}
}

// IsModelName reports whether a value can be the name of a model, or a list of names with commas.
func IsModelName(value jsontext.Value) bool {
	name, ok := rawjson.Head(value, MaxModel)
	return ok && len(name) <= MaxModel
}

// NewForm returns the form of fields.json: a word, {} for any object, an object with the forms of its members,
// [form] for a list, and [form, form] for one of them. If an object has one member, it is required. The member
// "*16" stands for at most 16 members of any name, and "*" for any number.
func NewForm(of any) Form {
	switch of := of.(type) {
	case string:
		return words[of]
	case []any:
		either := NewForm(of[0])
		if len(of) == 1 {
			return listOf(either)
		}
		for _, one := range of[1:] {
			a, b := either, NewForm(one)
			either = Form{a.Want + " or " + b.Want, func(value jsontext.Value) bool { return a.Fits(value) || b.Fits(value) }}
		}
		return either
	}
	members := map[string]Form{}
	for name, one := range of.(map[string]any) { //nolint:forcetypeassert // else the table is wrong
		if most, isMap := strings.CutPrefix(name, "*"); isMap {
			return mapOf(most, NewForm(one))
		}
		members[name] = NewForm(one)
	}
	if len(members) == 0 {
		return ofKind("an object", "{")
	}
	sorted := slices.Sorted(maps.Keys(members))
	names := rawjson.NewNames(sorted...)
	return Form{"an object of " + strings.Join(sorted, ", "), func(object jsontext.Value) bool {
		var seen []string
		says := len(members) > 1
		for m, err := range names.Object(object) {
			f, known := members[m.Name]
			isNull := m.Value.Kind() == 'n'
			if err != nil || !known || slices.Contains(seen, m.Name) || !isNull && !f.Fits(m.Value) {
				return false
			}
			seen, says = append(seen, m.Name), says || !isNull
		}
		return says
	}}
}

func listOf(element Form) Form {
	which, isOfObjects := strings.CutPrefix(element.Want, "an object")
	want := "an array of objects" + which
	if !isOfObjects {
		want = "an array of at most " + strconv.Itoa(maxListed) + ", each " + element.Want
	}
	return Form{want, func(list jsontext.Value) bool {
		for i, item := range rawjson.Items(list) {
			if i == maxListed && !isOfObjects || !element.Fits(item) {
				return false
			}
		}
		return list.Kind() == '['
	}}
}

func mapOf(most string, element Form) Form {
	limit, _ := strconv.Atoi(most)
	if most != "" {
		most = " of at most " + most + " members"
	}
	return Form{"an object" + most + ", each " + element.Want, func(object jsontext.Value) bool {
		count := 0
		for _, value := range rawjson.Pairs(object) {
			if count++; limit > 0 && count > limit || value.Kind() != 'n' && !element.Fits(value) {
				return false
			}
		}
		return object.Kind() == '{'
	}}
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
		case i >= 0, slices.ContainsFunc(judged[:], func(name string) bool { return MayBeName(quoted, name) }):
			return false
		}
	}
	return object.Kind() == '{'
}
