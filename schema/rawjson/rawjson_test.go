package rawjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// The error for a text that is no object names the fault and its place.
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

// Strict reading refuses JSON that parsers may read differently.
func TestReadStrict(t *testing.T) {
	for text, want := range map[string]string{
		` {"a":1} ` + "\n": `{"a":1}`, `{"a":1,"\u0061":2}`: "", `{"a":{"b":1,"b":2}}`: "", `{"a":"` + "\xff" + `"}`: "", `{} {}`: "", ``: "", `[1,`: "",
	} {
		value, err := ReadStrict([]byte(text))
		if string(value) != want || (err == nil) != (want != "") || cap(value) != len(value) {
			t.Errorf("%q: got %q, %v, want %q", text, value, err, want)
		}
	}
}

func TestGet(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{"a":null,"a":1,"a":2}`, "1"},
		{`{"b":{"a":1},"\u0061" : [ ] }`, "[ ]"},
		{`{"b":"\\","a":"\\\""}`, `"\\\""`},
		{`[1]`, ""},
		{``, ""},
	} {
		if got := Get([]byte(tc.text), "a"); string(got) != tc.want {
			t.Errorf("%s: got %q, want %q", tc.text, got, tc.want)
		}
	}
}

// collect returns what a way to read an object yields.
func collect(read func(yield func(Member, error) bool)) (members []Member, message string) {
	read(func(m Member, err error) bool {
		if err != nil {
			message = err.Error()
			return false
		}
		members = append(members, m)
		return true
	})
	return members, message
}

// newDecoder returns the decoder that what is read here is compared with.
func newDecoder(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// decodeMembers returns the members of an object as the decoder reads them, up to its first error.
func decodeMembers(text []byte) (members []Member) {
	d := newDecoder(text)
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}
	for d.PeekKind() == '"' {
		quoted, _ := d.ReadValue()
		m := Member{Quoted: quoted.Clone()}
		value, err := d.ReadValue()
		if err != nil {
			break
		}
		m.Value = value.Clone()
		members = append(members, m)
	}
	return members
}

// checkPlace checks an error of Check. The text before its byte must be the beginning of JSON, and not
// with that byte.
func checkPlace(t *testing.T, text []byte, err error) {
	t.Helper()
	isBeginning := func(text []byte) bool {
		_, err := newDecoder(text).ReadValue()
		return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
	}
	var at int
	switch n, _ := fmt.Sscanf(err.Error(), "not valid JSON at byte %d", &at); {
	case n == 1 && (!isBeginning(text[:at]) || isBeginning(text[:at+1]) && text[at] != '\\'):
		t.Fatalf("%q: got %v, but the text is the beginning of JSON up to another byte", text, err)
	case strings.HasPrefix(err.Error(), "ends too early") && !isBeginning(text) && bytes.IndexByte(text, '\\') < 0:
		t.Fatalf("%q: got %v, but it is no beginning of JSON", text, err)
	}
}

// checkScan compares what is read of a text with what the decoder and the standard library read. It also
// compares the end of each value that begins in text.
func checkScan(t *testing.T, text []byte) {
	t.Helper()
	err := Check(text)
	if isDeep := errors.Is(err, errTooDeep); (err == nil) != json.Valid(text) && !isDeep {
		t.Fatalf("%q: got %v, of which the standard library says %t", text, err, json.Valid(text))
	}
	if err != nil {
		checkPlace(t, text, err)
	}
	got, gotErr := collect(NewNames("a").Object(text))
	want, wantErr := decodeMembers(text), ""
	if kind := newDecoder(text).PeekKind(); err != nil || kind != '{' {
		wantErr = cmp.Or(err, errNoObject).Error()
	}
	same := func(a, b Member) bool {
		name, _ := Head(b.Quoted, MaxName)
		return a.Name == name && bytes.Equal(a.Value, b.Value) && bytes.Equal(a.Quoted, b.Quoted) && cap(a.Value) == len(a.Value)
	}
	if gotErr != wantErr || !slices.EqualFunc(got, want, same) {
		t.Fatalf("%q: got %+v, %q\nwant %+v, %q", text, got, gotErr, want, wantErr)
	}
	for i := range min(len(text), 256) {
		if end := scanValue(text, i, maxDepth); end >= 0 && !json.Valid(text[i:end]) {
			t.Fatalf("%q is no JSON, and was accepted", text[i:end])
		}
	}
}

// Strings are scanned in blocks, and their ends byte by byte.
func TestScan(t *testing.T) {
	tier.Slow(t)
	marks := []string{"", `\"`, `\\`, `\u00e9`, `\u00g9`, `\x`, "\x1f", "\xff", "\x7f", "é", "\x00", `"`, `\"#`, `\\]`, "#", "]"}
	for length := range 70 {
		plain := strings.Repeat("x", length)
		for _, mark := range marks {
			checkScan(t, []byte(`{"a":"`+plain+mark+plain+`", "b" : 1}`))
			checkScan(t, []byte(`{"a":"`+plain+mark))
			for _, next := range marks {
				checkScan(t, []byte(`{"a":"`+plain+mark+next+strings.Repeat("x", 40)+`","b":1}`))
			}
		}
	}
	for _, levels := range []int{wordBits - 1, wordBits, wordBits + 1, 2*wordBits + 1, maxDepth - 1, maxDepth} {
		for _, end := range []string{`,"b":1}`, `]`, `}x`, ``} {
			checkScan(t, []byte(`{"a":`+strings.Repeat("[", levels)+strings.Repeat("]", levels)+end))
			checkScan(t, []byte(strings.Repeat(`{"a":`, levels)+"[{}]"+strings.Repeat("}", levels-1)+end))
			checkScan(t, []byte(`{"a":`+strings.Repeat(`[{"a":`, levels/2)+"1"+strings.Repeat("}]", levels/2)+end))
		}
	}
	checkScan(t, []byte(`{"`+strings.Repeat("x", MaxName)+`":1,"`+strings.Repeat("x", MaxName+1)+`":2}`))
	for _, number := range []string{"0", "-0", "01", "-", "1.", "1.5", ".5", "1e", "1e5", "1E+5", "1e-", "-1.0e-10", "+1", "1x", "0x1", "NaN"} {
		checkScan(t, []byte(`{"a":`+number+`}`))
		checkScan(t, []byte(`{"a":[`+number+` ]}`))
	}
	for _, text := range []string{`{}`, `{ }x`, `{,}`, `{"a":1,}`, `{"a":1 "b":2}`, `{"a" 1}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":{"b"}}`, `{"a":[1}}`, `{"a":{"b":1]}`, `{"a":tru}`, `{"a":null`, `{"a":1}}`} {
		checkScan(t, []byte(text))
	}
}

// The documents of JSONTestSuite and changed ones are read as by the decoder, whole and within
// an object. Space before them moves them over the words that the scanner reads at once.
func TestScanSuite(t *testing.T) {
	paths, err := filepath.Glob("../testdata/jsontestsuite/test_parsing/*.json")
	if err != nil || len(paths) < 300 {
		t.Fatalf("got %d documents, %v", len(paths), err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{`"`, `\\`, `\"`, `\u`, `\ud83d\ude00`, "{", "}", "[", "]", ",", ":", "-0", "1E400", "01", "true", "nul", " ", "\t", "\x00", "\x1f", "\x7f", "\x80", "\xed\xa0\x80", "\ufeff", strings.Repeat("x", 40)}
	for _, path := range paths {
		document, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		checkScan(t, document)
		document = document[:min(len(document), 2<<10)]
		for round := range 40 {
			text := slices.Concat([]byte(strings.Repeat(" ", round)+`{"a":`), document, []byte(`, "a":"b"}`))
			if round%2 == 1 {
				at := random.IntN(len(text))
				text = slices.Concat(text[:at], []byte(pieces[random.IntN(len(pieces))]), text[min(len(text), at+random.IntN(3)):])
			}
			checkScan(t, text)
		}
	}
}

// Values are read if the standard library finds them valid. The parts of objects and arrays
// make up the same text, at every depth.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{`{}`, `{"a":1,"a":[true,null]}`, `{"\ud800":"\u0000"} `, `{"a" : { } , "b":"` + "\xff" + `"}`, `[1,2`, `[ [ ] , {"a":0} ]`, `["\\","\"]",-1e5 ]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		checkScan(t, text)
		if Check(text) != nil {
			return
		}
		value := jsontext.Value(bytes.TrimSpace(text))
		if members, err := Members(text); value.Kind() == '{' && err == nil {
			checkPairs(t, value, members)
		}
		var got, want bytes.Buffer
		if again := rebuild(value); json.Compact(&got, again) != nil || json.Compact(&want, text) != nil || got.String() != want.String() {
			t.Errorf("got %s of %s", again, text)
		}
	})
}

// checkPairs compares the members that Pairs yields with those of Members.
func checkPairs(t *testing.T, value jsontext.Value, members []Member) {
	t.Helper()
	i := 0
	for name, part := range Pairs(value) {
		if i == len(members) || string(name) != string(members[i].Quoted) || string(part) != string(members[i].Value) {
			t.Fatalf("got %s and %s as member %d of %s", name, part, i, value)
		}
		i++
	}
	if i != len(members) {
		t.Errorf("got %d members of %s, want %d", i, value, len(members))
	}
}

// rebuild puts a value together from its parts.
func rebuild(value jsontext.Value) []byte {
	var parts [][]byte
	switch value.Kind() {
	case '{':
		for name, part := range Pairs(value) {
			parts = append(parts, slices.Concat(name, []byte(":"), rebuild(part)))
		}
		return slices.Concat([]byte("{"), bytes.Join(parts, []byte(",")), []byte("}"))
	case '[':
		for _, item := range Items(value) {
			parts = append(parts, rebuild(item))
		}
		return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
	}
	return value
}

func TestSplitItems(t *testing.T) {
	leads := func(item jsontext.Value) bool { return item.Kind() == '0' }
	for text, want := range map[string][2]string{
		`[]`:                     {"", "]"},
		`[ ]`:                    {"", "]"},
		`[1]`:                    {"1", "]"},
		`[ 1 , 2 ]`:              {"1 , 2", "]"},
		`[1,"a",2]`:              {"1", `"a",2]`},
		`[ 1 ,2, {"a":[1]} , 3]`: {"1 ,2", `{"a":[1]} , 3]`},
		`["a",1]`:                {"", `"a",1]`},
		`[ "a" ]`:                {"", `"a" ]`},
		`"text"`:                 {"", `"text"`},
	} {
		head, tail := SplitItems(jsontext.Value(text), leads)
		if string(head) != want[0] || string(tail) != want[1] {
			t.Errorf("%s: got %q and %q, want %q", text, head, tail, want)
		}
	}
}

// A value is found where it is, not where another one has the same bytes.
func TestOffset(t *testing.T) {
	text := jsontext.Value(`{"a":["x"],"b":["x"], "c" : [ "x" ]}`)
	var got []int
	for name, list := range Pairs(text) {
		for _, item := range Items(list) {
			got = append(got, Offset(text, name), Offset(text, list), Offset(list, item), Offset(text, item))
		}
	}
	if want := []int{1, 5, 1, 6, 11, 15, 1, 16, 22, 28, 2, 30}; !slices.Equal(got, want) || Offset(text, text) != 0 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestEndOfString finds the ends of strings of which other values follow. They have quotes, backslashes and codes in
// any order, around the blocks that are skipped together.
func TestEndOfString(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	pieces := []string{`\"`, `\\`, `\n`, `\u0022`, "a", "ä", strings.Repeat("x", blockSize-1), strings.Repeat(`\"`, blockSize/2)}
	for range 20_000 / tier.Sample(4) {
		text := []byte{'"'}
		for range random.IntN(40) {
			text = append(text, pieces[random.IntN(len(pieces))]...)
		}
		text = append(text, '"')
		end := len(text)
		text = append(text, `,"\"\\","x"]`...)
		if got := endOf(text); got != end || scanString(text, 0) != end {
			t.Fatalf("%s: got %d, want %d", text, got, end)
		}
	}
	long := []byte(`"` + strings.Repeat(`\"`, maxSkip) + `\\"`)
	if got := endOf(append(slices.Clip(long), `,""`...)); got != len(long) {
		t.Errorf("got %d, want %d", got, len(long))
	}
}

func TestFromFirst(t *testing.T) {
	for array, want := range map[string]string{
		``: ``, `1`: ``, `{"a":[1]}`: ``, `[]`: ``, "[ \n]": ``,
		`[{"a":1},{"b":2}]`: `"a"=1`, "[ \t{\"a\": [1] , \"b\":2}, {}]": `"a"=[1]"b"=2`, `[[{"a":1}],{"a":2}]`: ``, `["a",{"a":2}]`: ``,
	} {
		got := ""
		for name, value := range Pairs(FromFirst(jsontext.Value(array))) {
			got += string(name) + "=" + string(value)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", array, got, want)
		}
	}
}
