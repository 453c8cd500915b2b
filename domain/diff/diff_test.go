package diff

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// most is what a preset version stores, in bytes.
const most = 256 << 10

// patch returns the JSON of a JSON Patch.
func patch(t *testing.T, from, to string) string {
	t.Helper()
	operations, err := JSON([]byte(from), []byte(to))
	if err != nil {
		t.Fatal(err)
	}
	for i := range operations {
		operations[i].Old = nil // TestOldValues has them
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(operations); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text.String())
}

func TestJSON(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"nothing":             {`{}`, `{}`, `[]`},
		"order and spaces":    {`{"a":1,"b":{"c":1,"d":2}}`, "{ \"b\": {\"d\":2,\n\"c\":1} , \"a\":1}", `[]`},
		"spelling of text":    {`{"a":"\u00e9\/"}`, `{"a":"é/"}`, `[]`},
		"long numbers":        {`{"seed":12345678901234567890}`, `{"seed":12345678901234567891}`, `[{"op":"replace","path":"/seed","value":12345678901234567891}]`},
		"long fractions":      {`{"p":0.1234567890123456789}`, `{"p":0.1234567890123456780}`, `[{"op":"replace","path":"/p","value":0.1234567890123456780}]`},
		"spelling of numbers": {`{"t":1}`, `{"t":1.0e0}`, `[{"op":"replace","path":"/t","value":1.0e0}]`},
		"numbers inside":      {`{}`, `{"t":{"n":[1.50,-0,1E400]}}`, `[{"op":"add","path":"/t","value":{"n":[1.50,-0,1E400]}}]`},
		"escapes":             {`{"x":{"a/b":1,"m~n":1,"":1,"~1":1}}`, `{"x":{"a/b":2,"m~n":2,"":2,"~1":2}}`, `[{"op":"replace","path":"/x/","value":2},{"op":"replace","path":"/x/a~1b","value":2},{"op":"replace","path":"/x/m~0n","value":2},{"op":"replace","path":"/x/~01","value":2}]`},
		"not for a web page":  {`{"x":{}}`, `{"x":{"<&>":"<&>"}}`, `[{"op":"add","path":"/x/<&>","value":"<&>"}]`},
		"null":                {`{"x":{"a":null,"b":1,"c":null}}`, `{"x":{"a":1,"b":null}}`, `[{"op":"replace","path":"/x/a","value":1},{"op":"replace","path":"/x/b","value":null},{"op":"remove","path":"/x/c"}]`},
		"another type":        {`{"a":1,"b":[],"c":{}}`, `{"a":"1","b":{},"c":[]}`, `[{"op":"replace","path":"/a","value":"1"},{"op":"replace","path":"/b","value":{}},{"op":"replace","path":"/c","value":[]}]`},
		"tool before":         {`{"tools":[{"name":"a"},{"name":"b"}]}`, `{"tools":[{"name":"c"},{"name":"a"},{"name":"b"}]}`, `[{"op":"add","path":"/tools/0","value":{"name":"c"}}]`},
		"tool gone":           {`{"tools":[{"name":"a"},{"name":"b"},{"name":"c"}]}`, `{"tools":[{"name":"a"},{"name":"c"}]}`, `[{"op":"remove","path":"/tools/1"}]`},
		"tool changed":        {`{"tools":[{"name":"a"},{"name":"b","strict":true}]}`, `{"tools":[{"name":"a"},{"name":"b","strict":false}]}`, `[{"op":"replace","path":"/tools/1/strict","value":false}]`},
		"no value":            {`null`, `null`, `[]`},
		"a value for none":    {`null`, `{"a":1}`, `[{"op":"replace","path":"","value":{"a":1}}]`},
		"none for a value":    {`{"a":1}`, `null`, `[{"op":"replace","path":"","value":null}]`},
	} {
		if got := patch(t, tc.from, tc.to); got != tc.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, tc.want)
		}
	}
}

func TestOldValues(t *testing.T) {
	for _, tc := range []struct{ from, to, want string }{
		{`{"t":0.70,"m":"a","x":null}`, `{"m":"<b>","new":1,"x":2}`, `[{"op":"replace","path":"/m","value":"<b>","old":"a"},{"op":"add","path":"/new","value":1},{"op":"remove","path":"/t","old":0.70},{"op":"replace","path":"/x","value":2,"old":null}]`},
		{`{"s":["a","b","c","d"]}`, `{"s":["b","x","d"]}`, `[{"op":"remove","path":"/s/0","old":"a"},{"op":"replace","path":"/s/1","value":"x","old":"c"}]`},
		{`null`, `{"a":1}`, `[{"op":"replace","path":"","value":{"a":1},"old":null}]`},
		{`{"a":1}`, `null`, `[{"op":"replace","path":"","value":null,"old":{"a":1}}]`},
	} {
		operations, err := JSON([]byte(tc.from), []byte(tc.to))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Marshal(operations); err != nil || string(got) != tc.want {
			t.Errorf("got %s, %v, want %s", got, err, tc.want)
		}
	}
}

// Arrays that are too long to look for what moved are compared by index.
func TestLongArrays(t *testing.T) {
	list := func(from, to int) string {
		var text []string
		for i := from; i < to; i++ {
			text = append(text, strconv.Itoa(i))
		}
		return `{"x":[` + strings.Join(text, ",") + `]}`
	}
	if got := patch(t, list(0, 256), list(1, 256)); got != `[{"op":"remove","path":"/x/0"}]` {
		t.Errorf("got %s, want one removal", got)
	}
	for _, pair := range [][2]string{{list(0, 257), list(1, 257)}, {list(1, 257), list(0, 257)}} {
		if operations := strings.Count(patch(t, pair[0], pair[1]), `"op"`); operations != 257 {
			t.Errorf("got %d operations, want one for each index", operations)
		}
	}
	// However much there is in two values, they may be equal.
	ones := "[" + strings.Repeat("1,", most/2-40) + "1]"
	if got := patch(t, `{"a":1,"b":`+ones+`}`, `{"b":`+ones+`, "a":1}`); got != "[]" {
		t.Errorf("got %.100s, want no operation", got)
	}
}

// bounded runs a comparison, which must not take more than 256 MiB.
func bounded(t *testing.T, compare func() string) string {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text := compare()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
		t.Errorf("it took %d MiB", took>>20)
	}
	return text
}

// The cost of hostile values is bounded: if the patch could be too large, it replaces
// everything.
func TestHostileJSON(t *testing.T) {
	tier.Slow(t)
	const room = most - 1024
	filled := func(before, element, last, after string) string {
		n := (room - len(before) - len(after)) / (len(element) + 1)
		return before + strings.Repeat(element+",", n) + last + after
	}
	nested := func(n int, element, last string) string {
		return filled(`{"x":`+strings.Repeat("[", n), element, last, strings.Repeat("]", n)+"}")
	}
	long := strings.Repeat("k", room/2)
	lists := func(n int, element, last string) string {
		list := "[" + strings.Repeat(element+",", (room/n-len(last))/(len(element)+1)-2) + last + "]"
		return `{"x":[` + strings.TrimSuffix(strings.Repeat(list+",", n), ",") + "]}"
	}
	tool := `{"type":"function","name":"weather_forecast","description":"Tells the weather of the coming days at a place.","strict":true,` +
		`"parameters":{"type":"object","properties":{"place":{"type":"string","description":"A town and its country."},` +
		`"days":{"type":"integer","minimum":1,"maximum":14},"units":{"type":"string","enum":["metric","imperial"]}},"required":["place","days"]}}`
	for name, tc := range map[string]struct {
		from, to string
		whole    bool
	}{
		"many numbers":      {nested(1, "1", "1"), nested(1, "2", "2"), true},
		"below a long name": {filled(`{"x":{"`+long+`":[`, `"0123456789abcdef"`, "1", "]}}"), filled(`{"x":{"`+long+`":[`, `"0123456789abcdef"`, "2", "]}}"), true},
		"far down":          {nested(100, `"0123456789abcdef"`, "1"), nested(100, `"0123456789abcdef"`, "2"), true},
		"nested":            {nested(120, "1", "1"), nested(120, "1", "2"), true},
		"lists of texts":    {lists(140, `"1234"`, "1"), lists(140, `"1234"`, "2"), false},
		"long list":         {nested(1, `"1234"`, "1"), nested(1, `"1235"`, "2"), false},
		"nested texts":      {nested(10, `"0123456789abcdef"`, "1"), nested(10, `"0123456789abcdef"`, "2"), false},
		"one long text":     {`{"x":"` + strings.Repeat("a", room) + `"}`, `{"x":"` + strings.Repeat("b", room) + `"}`, false},
		"just large":        {filled(`{"tools":[`, tool, "1", "]}"), filled(`{"tools":[`, tool, "2", "]}"), false},
	} {
		t.Run(name, func(t *testing.T) {
			got := bounded(t, func() string { return patch(t, tc.from, tc.to) })
			if whole := got == `[{"op":"replace","path":"","value":`+tc.to+`}]`; whole != tc.whole {
				t.Errorf("all is replaced: %t, want %t", whole, tc.whole)
			}
			if len(got) > maxPatch+2*most {
				t.Errorf("got a patch of %d bytes", len(got))
			}
		})
	}
}

func TestText(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{ // want is behind the two lines of names; empty for none
		"equal":               {"a\nb", "a\nb", ""},
		"first":               {"", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"no more":             {"a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		"end of line":         {"a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		"spaces":              {"a b\n", "a  b\n", "@@ -1 +1 @@\n-a b\n+a  b\n"},
		"looks like a header": {"-- x\n", "++ y\n", "@@ -1 +1 @@\n--- x\n+++ y\n"},
		"some context":        {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n", "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"},
		"no UTF-8 is broken":  {"grün\n", "grüß\n", "@@ -1 +1 @@\n-grün\n+grüß\n"},
	} {
		got, err := Text("p@1", "p@2", tc.from, tc.to)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want == "":
			if got != nil {
				t.Errorf("%s: got %q, want none", name, *got)
			}
		case got == nil || *got != "--- p@1\n+++ p@2\n"+tc.want:
			t.Errorf("%s: got %v, want %q", name, got, tc.want)
		}
	}
}

// The difference of hostile texts is no more than both of them.
func TestHostileText(t *testing.T) {
	tier.Slow(t)
	const room = most - 16
	r := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, room)
	for i := range noise {
		noise[i] = "ab\n"[r.IntN(3)]
	}
	for name, pair := range map[string][2]string{
		"all lines differ": {strings.Repeat("a\n", room/2), strings.Repeat("b\n", room/2)},
		"empty lines":      {strings.Repeat("\n", room/2), strings.Repeat("\n", room/4)},
		"shifted":          {strings.Repeat("a\nb\n", room/4), strings.Repeat("b\na\n", room/4)},
		"noise":            {string(noise), string(noise[1:])},
		"one line":         {strings.Repeat("a", room), strings.Repeat("b", room)},
	} {
		t.Run(name, func(t *testing.T) {
			got := bounded(t, func() string {
				text, err := Text("p@1", "p@2", pair[0], pair[1])
				if err != nil {
					t.Fatal(err)
				}
				return *text
			})
			if len(got) > 4*most+1024 {
				t.Errorf("got a difference of %d bytes", len(got))
			}
		})
	}
}
