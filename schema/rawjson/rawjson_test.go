package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// A text that is no object is refused for what is the matter with it, and where.
func TestNotJSON(t *testing.T) {
	nested := func(open, end string, levels int) string {
		return `{"a":` + strings.Repeat(open, levels-1) + "1" + strings.Repeat(end, levels-1) + "}"
	}
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", " ", "ends too early, at byte 0"},
		{"cut in a value", `{"model":"gpt`, "ends too early, at byte 13"},
		{"cut in a name", `{"mod`, "ends too early, at byte 5"},
		{"cut in what is nested", `{"a":[{"b":1},`, "ends too early, at byte 14"},
		{"cut after a member", `{"a":1`, "ends too early, at byte 6"},
		{"no value", `{"a":}`, "not valid JSON at byte 5"},
		{"no such word", `{"a":[nulx]}`, "not valid JSON at byte 9"},
		{"more behind", `{"a":1} x`, "has text after its end at byte 7"},
		{"no object", `[]`, "must be an object"},
		{"arrays at the limit", nested("[", "]", maxDepth), ""},
		{"arrays beyond it", nested("[", "]", maxDepth+1), "must not nest deeper than 10000 levels"},
		{"objects at the limit", nested(`{"a":`, "}", maxDepth), ""},
		{"objects beyond it", nested(`{"a":`, "}", maxDepth+1), "must not nest deeper than 10000 levels"},
		{"a name that says so", `{"exceeded max depth":x}`, "not valid JSON at byte 22"},
	} {
		got := ""
		if _, err := Members([]byte(tc.text)); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// The body of a loop over members may read a value or leave it.
func TestMembersAreSkipped(t *testing.T) {
	w := New([]byte(` {"a":[1,{"x":2}],"b":"t\u0065xt","a":null} `))
	var names, values []string
	for quoted, err := range w.Members() {
		if err != nil {
			t.Fatal(err)
		}
		name, _ := Text(quoted)
		names = append(names, name)
		if name == "b" {
			value, err := w.Value()
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, string(value))
		}
	}
	if err := w.End(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(names, []string{"a", "b", "a"}) || !slices.Equal(values, []string{`"t\u0065xt"`}) {
		t.Errorf("got %q with %q", names, values)
	}
}

// A strict Walker refuses what clients may understand differently.
func TestStrict(t *testing.T) {
	for _, text := range []string{`{"a":1,"\u0061":2}`, `{"a":{"b":1,"b":2}}`, `{"a":"` + "\xff" + `"}`} {
		for strict, w := range map[bool]*Walker{true: NewStrict([]byte(text)), false: New([]byte(text))} {
			if _, err := w.Value(); (err != nil) != strict {
				t.Errorf("%q, strict %t: got %v", text, strict, err)
			}
		}
	}
}

func TestGet(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{"a":null,"a":1,"a":2}`, "1"},
		{`{"b":{"a":1},"\u0061" : [ ] }`, "[ ]"},
		{`{"a":1,}`, "1"},
		{`{"b":}`, ""},
		{`[1]`, ""},
		{``, ""},
	} {
		if got := Get([]byte(tc.text), "a"); string(got) != tc.want {
			t.Errorf("%s: got %q, want %q", tc.text, got, tc.want)
		}
	}
}

// Objects and arrays are read where the standard library finds them valid, and their
// parts make up the same text.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{`{}`, `{"a":1,"a":[true,null]}`, `{"\ud800":"\u0000"} `, `{"a" : { } , "b":"` + "\xff" + `"}`, `[1,2`, `[ [ ] , {"a":0} ]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		trimmed := bytes.TrimLeft(text, " \t\r\n")
		var again []byte
		var err error
		switch {
		case bytes.HasPrefix(trimmed, []byte("{")):
			var members []Member
			members, err = Members(text)
			for _, m := range members {
				again = append(again, ',')
				again = append(append(append(again, m.Quoted...), ':'), m.Value...)
			}
			again = append(append([]byte("{"), bytes.TrimPrefix(again, []byte(","))...), '}')
		case bytes.HasPrefix(trimmed, []byte("[")):
			var elements []jsontext.Value
			elements, err = Elements(text)
			for _, e := range elements {
				again = append(append(again, ','), e...)
			}
			again = append(append([]byte("["), bytes.TrimPrefix(again, []byte(","))...), ']')
		default:
			return
		}
		if valid := json.Valid(text); valid != (err == nil) {
			t.Fatalf("got %v for %q, of which the standard library says %t", err, text, valid)
		}
		var got, want bytes.Buffer
		if err == nil && (json.Compact(&got, again) != nil || json.Compact(&want, text) != nil || got.String() != want.String()) {
			t.Errorf("got %s of %s", again, text)
		}
	})
}
