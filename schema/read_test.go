package schema

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReadJSONTestSuite reads every file of the suite. y_ must be accepted and n_ refused.
// For i_ a reader may choose, and the choices are listed here.
func TestReadJSONTestSuite(t *testing.T) {
	const (
		names   = "names must be unique (RFC 7493, section 2.3)"
		unicode = "text must be valid Unicode (RFC 7493, section 2.1)"
		depth   = "deeper than MaxDepth"
		number  = "in the range of a double, or rounded to one"
		huge    = "beyond the range of a double (RFC 7493, section 2.2)"
	)
	// Files that the suite leaves to the reader or that we treat otherwise,
	// with the reason.
	refused := map[string]string{
		"y_object_duplicated_key.json":                        names,
		"y_object_duplicated_key_and_value.json":              names,
		"i_object_key_lone_2nd_surrogate.json":                unicode,
		"i_string_1st_surrogate_but_2nd_missing.json":         unicode,
		"i_string_1st_valid_surrogate_2nd_invalid.json":       unicode,
		"i_string_UTF-16LE_with_BOM.json":                     unicode,
		"i_string_UTF-8_invalid_sequence.json":                unicode,
		"i_string_UTF8_surrogate_U+D800.json":                 unicode,
		"i_string_incomplete_surrogate_and_escape_valid.json": unicode,
		"i_string_incomplete_surrogate_pair.json":             unicode,
		"i_string_incomplete_surrogates_escape_valid.json":    unicode,
		"i_string_invalid_lonely_surrogate.json":              unicode,
		"i_string_invalid_surrogate.json":                     unicode,
		"i_string_invalid_utf-8.json":                         unicode,
		"i_string_inverted_surrogates_U+1D11E.json":           unicode,
		"i_string_iso_latin_1.json":                           unicode,
		"i_string_lone_second_surrogate.json":                 unicode,
		"i_string_lone_utf8_continuation_byte.json":           unicode,
		"i_string_not_in_unicode_range.json":                  unicode,
		"i_string_overlong_sequence_2_bytes.json":             unicode,
		"i_string_overlong_sequence_6_bytes.json":             unicode,
		"i_string_overlong_sequence_6_bytes_null.json":        unicode,
		"i_string_truncated-utf-8.json":                       unicode,
		"i_string_utf16BE_no_BOM.json":                        unicode,
		"i_string_utf16LE_no_BOM.json":                        unicode,
		"i_number_huge_exp.json":                              huge,
		"i_number_neg_int_huge_exp.json":                      huge,
		"i_number_pos_double_huge_exp.json":                   huge,
		"i_number_real_neg_overflow.json":                     huge,
		"i_number_real_pos_overflow.json":                     huge,
		"i_structure_500_nested_arrays.json":                  depth,
		"i_structure_UTF-8_BOM_empty_object.json":             "a byte order mark is not JSON (RFC 8259, section 8.1)",
	}
	accepted := map[string]string{
		"i_number_double_huge_neg_exp.json":   number,
		"i_number_real_underflow.json":        number,
		"i_number_too_big_neg_int.json":       number,
		"i_number_too_big_pos_int.json":       number,
		"i_number_very_big_negative_int.json": number,
	}
	paths, err := filepath.Glob("testdata/jsontestsuite/test_parsing/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if want := 318; len(paths) != want {
		t.Fatalf("got %d files, want %d", len(paths), want)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		reason, want := "", name[0] == 'y'
		switch {
		case refused[name] != "":
			reason, want = refused[name], false
		case accepted[name] != "":
			reason, want = accepted[name], true
		case name[0] == 'i':
			t.Errorf("%s: no choice is listed", name)
		}
		if _, err := readValue(text); (err == nil) != want {
			t.Errorf("%s: got %v, want accepted %t: %s", name, err, want, reason)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	const beyondDouble = "must be in the range of a double (IEEE 754), which ends at 1.8e308"
	for _, test := range []struct {
		name, body    string
		path, message string
	}{
		{"no body", "", "", "must not be empty"},
		{"white space", " \n", "", "must not be empty"},
		{"an array", `[1]`, "", "must be an object"},
		{"a string", `"model"`, "", "must be an object"},
		{"null", `null`, "", "must be an object"},
		{"half an object", `{"a":[1`, "", "ends too early, at byte 7"},
		{"no value", `{"a":}`, "", "not valid JSON at byte 5"},
		{"no colon", `{"a" 1}`, "", "not valid JSON at byte 5"},
		{"no comma", `{"a":1 "b":2}`, "", "not valid JSON at byte 7"},
		{"trailing comma", `{"a":1,}`, "", "not valid JSON at byte 6"},
		{"a name that is no string", `{1:2}`, "", "not valid JSON at byte 1"},
		{"single quotes", `{'a':1}`, "", "not valid JSON at byte 1"},
		{"NaN", `{"a":NaN}`, "", "not valid JSON at byte 5"},
		{"a comment", `{"a":1}//`, "", "has text after its end at byte 7"},
		{"two values", `{"a":1}{}`, "", "has text after its end at byte 7"},
		{"a byte order mark", "\ufeff{}", "", "not valid JSON at byte 0"},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", "", "not valid JSON at byte 6"},
		{"a lone surrogate", `{"a":"\ud800"}`, "", "not valid JSON at byte 6"},
		{"duplicate name", `{"a":1,"a":2}`, "/a", "duplicate name"},
		{"duplicate name in another spelling", `{"a":1,"\u0061":2}`, "/a", "duplicate name"},
		{"duplicate name in an unknown member", `{"x":[{"y~/z":1,"y~/z":2}]}`, "/x/0/y~0~1z", "duplicate name"},
		{"duplicate empty name", `{"":1,"":2}`, "/", "duplicate name"},
		{"a number beyond a double", `{"x":{"a/b":[0,-1e400 ]}}`, "/x/a~1b/1", beyondDouble},
		{"a member beyond a double", `{"a":1,"b":1E309}`, "/b", beyondDouble},
		{"digits beyond a double", `{"a":1` + strings.Repeat("0", 309) + `}`, "/a", beyondDouble},
		{"an exponent of many digits", `{"a":1e99999999999999999999}`, "/a", beyondDouble},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := readObject([]byte(test.body))
			got, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("got %v, want an *Error", err)
			}
			want := []Violation{{test.path, test.message}}
			if !slices.Equal(got.Violations, want) {
				t.Errorf("got %q, want %q", got.Violations, want)
			}
		})
	}
}

// TestReadNumbers checks that numbers of a double's range are read, however they are written.
func TestReadNumbers(t *testing.T) {
	for _, number := range []string{
		"1.7976931348623157e308", "-1.7976931348623157E+308", "1e-400", "0e999999999", "1.0", "123456789012345678901234567890",
		"1" + strings.Repeat("0", 308), "1" + strings.Repeat("0", 400) + "e-400", "0." + strings.Repeat("0", 400) + "1e500",
	} {
		if _, err := readObject([]byte(`{"a":[` + number + `]}`)); err != nil {
			t.Errorf("%.40s: got %v, want no error", number, err)
		}
	}
}

func TestReadLimits(t *testing.T) {
	nested := func(depth int) string {
		return `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
	}
	nestedObjects := func(depth int) string {
		return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
	}
	wide := func(members int) string {
		var b strings.Builder
		for i := range members {
			fmt.Fprintf(&b, `,"m%d":0`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	const tooMany = "has too many members: more than 16384 beyond the first 64 of an object"
	for _, test := range []struct {
		name, body string
		want       string // of the error, empty for none
	}{
		{"arrays at the depth", nested(128), ""},
		{"arrays beyond the depth", nested(129), "must not nest deeper than 128 levels"},
		{"objects at the depth", nestedObjects(128), ""},
		{"objects beyond the depth", nestedObjects(129), "must not nest deeper than 128 levels"},
		{"far beyond the depth", nested(1 << 20), "must not nest deeper than 128 levels"},
		{"as many members as allowed", wide(64 + 16384), ""},
		{"one member too many", wide(64 + 16385), tooMany},
		{"as many members of members", `{"x":[` + wide(64+16384) + `,` + wide(64) + `]}`, ""},
		{"one member of a member too many", `{"x":[` + wide(64+16384) + `,` + wide(65) + `]}`, tooMany},
		{"many small objects", `{"x":[` + strings.Repeat(wide(64)+",", 2000) + `0]}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := readObject([]byte(test.body))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestReadCase holds names to case: another spelling is another member.
func TestReadCase(t *testing.T) {
	if _, err := readObject([]byte(`{"model":1,"Model":2}`)); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

func TestObjectAll(t *testing.T) {
	body := []byte("\n{ \"z\" : 1.50 ,\t\"a\\u0062\":{ \"y\":[ ] , \"x\": null } ,\"\": \"\\u0041\", \"colon\" :\r\n\": :\"}\n")
	object, err := readObject(body)
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]string{
		{"z", "1.50"},
		{"ab", `{ "y":[ ] , "x": null }`},
		{"", `"\u0041"`},
		{"colon", `": :"`},
	}
	var got [][2]string
	for _, m := range object {
		name, value := m.Name, m.Value
		got = append(got, [2]string{name, string(value)})
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadLeavesBodyAlone(t *testing.T) {
	body := []byte(`{"a":"\u0041","b":[1,{"c":null}]}`)
	before := string(body)
	if _, err := readObject(body); err != nil {
		t.Fatal(err)
	}
	if string(body) != before {
		t.Errorf("got %s, want %s", body, before)
	}
}
