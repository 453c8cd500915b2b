package domain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// diff is an answer of Service.Diff.
type diff struct {
	From         int             `json:"from"`
	To           int             `json:"to"`
	Config       json.RawMessage `json:"config"`
	SystemPrompt *string         `json:"system_prompt"`
}

// put stores a version of a preset and returns its number.
func (f *fixture) put(t testing.TB, slug, config string, prompt *string) int {
	t.Helper()
	out, err := f.CreatePresetVersion(t.Context(), domain.By(admin), "", slug, domain.Capture{
		Dialect: domain.Responses, Config: json.RawMessage(config), SystemPrompt: prompt,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Number
}

// compare stores two versions and returns what Diff says of them.
func (f *fixture) compare(t testing.TB, versions [2]domain.Capture) diff {
	t.Helper()
	a := f.put(t, "compared", string(versions[0].Config), versions[0].SystemPrompt)
	b := f.put(t, "compared", string(versions[1].Config), versions[1].SystemPrompt)
	found, err := f.Diff(t.Context(), admin, "", "compared", strconv.Itoa(a), strconv.Itoa(b))
	if err != nil {
		t.Fatal(err)
	}
	var d diff
	if err := json.Unmarshal(found.JSON, &d); err != nil {
		t.Fatalf("%v in %s", err, found.JSON)
	}
	if d.From != a || d.To != b || found.Number != b || found.WorkspaceID == "" {
		t.Fatalf("got versions %d, %d and %+v, want %d and %d", d.From, d.To, found, a, b)
	}
	return d
}

// configs returns captures of two configs, and prompts those of two prompts.
func configs(from, to string) [2]domain.Capture {
	return [2]domain.Capture{{Config: json.RawMessage(from)}, {Config: json.RawMessage(to)}}
}

func prompts(from, to *string) [2]domain.Capture {
	both := configs("{}", "{}")
	both[0].SystemPrompt, both[1].SystemPrompt = from, to
	return both
}

func TestDiff(t *testing.T) {
	f := newFixture(t)
	f.put(t, "support", `{"model":"m","temperature":0.70}`, new("Be brief.\nBe kind.\n"))
	f.put(t, "support", `{"model":"m<2>","temperature":0.70}`, new("Be brief.\nBe strict.\n"))
	for name, to := range map[string]domain.Target{
		"stable": {Version: 1}, "next": {Version: 2}, "test": {Split: []domain.Share{{Version: 1, Weight: 1}, {Version: 2, Weight: 1}}},
	} {
		if _, err := f.PutLabel(t.Context(), domain.By(admin), "", "support", name, to); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"from":1,"to":2,"config":[{"op":"replace","path":"/model","value":"m<2>"}],` +
		`"system_prompt":"--- support@1\n+++ support@2\n@@ -1,2 +1,2 @@\n Be brief.\n-Be kind.\n+Be strict.\n","template":[]}`
	for _, named := range [][2]string{{"1", "2"}, {"stable", "next"}, {"1", "next"}} {
		found, err := f.Diff(t.Context(), user, "", "support", named[0], named[1])
		if err != nil || string(found.JSON) != want || found.Number != 2 {
			t.Errorf("%v: got  %s, version %d, %v\nwant %s, version 2", named, found.JSON, found.Number, err, want)
		}
	}
	found, err := f.Diff(t.Context(), admin, "default", "support", "2", "next")
	if want := `{"from":2,"to":2,"config":[],"system_prompt":null,"template":[]}`; err != nil || string(found.JSON) != want {
		t.Errorf("got %s, %v, want %s", found.JSON, err, want)
	}
	for name, tc := range map[string]struct {
		who            domain.Principal
		workspace      string
		slug, from, to string
		kind           domain.Kind
		says           string
		path           string
	}{
		"no from":               {admin, "", "support", "", "2", domain.Invalid, "from: must be", "from"},
		"no to":                 {admin, "", "support", "1", "", domain.Invalid, "to: must be", "to"},
		"no version 0":          {admin, "", "support", "0", "1", domain.Invalid, "from: must be a positive number", "from"},
		"no such from":          {admin, "", "support", "3", "1", domain.NotFound, "Preset version not found", "from"},
		"no such to":            {admin, "", "support", "1", "3", domain.NotFound, "Preset version not found", "to"},
		"beyond all numbers":    {admin, "", "support", "1", strings.Repeat("9", 40), domain.NotFound, "Preset version not found", "to"},
		"a leading zero":        {admin, "", "support", "01", "1", domain.Invalid, "from: must be a positive number without leading zeros", "from"},
		"negative":              {admin, "", "support", "-1", "1", domain.Invalid, "from: must be the number", "from"},
		"latest":                {admin, "", "support", "1", "latest", domain.NotFound, "Label not found", "to"},
		"no such label":         {admin, "", "support", "gone", "1", domain.NotFound, "Label not found", "from"},
		"split":                 {admin, "", "support", "1", "test", domain.Invalid, "to: stands for a split", "to"},
		"no such preset":        {admin, "", "nothing", "1", "2", domain.NotFound, "Preset not found", ""},
		"no such workspace":     {admin, "nowhere", "support", "1", "2", domain.NotFound, "Workspace not found", ""},
		"another's workspace":   {user, "nowhere", "support", "1", "2", domain.Forbidden, "Only management keys", ""},
		"preset before version": {admin, "", "nothing", "", "", domain.NotFound, "Preset not found", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.Diff(t.Context(), tc.who, tc.workspace, tc.slug, tc.from, tc.to)
			wantKind(t, err, tc.kind, tc.says)
			e, _ := errors.AsType[*domain.Error](err)
			if tc.path != "" && (len(e.Issues) != 1 || e.Issues[0].Path != tc.path) {
				t.Errorf("got issues %+v, want one of %s", e.Issues, tc.path)
			}
		})
	}
	if _, err := f.ArchivePreset(t.Context(), domain.By(admin), "", "support"); err != nil {
		t.Fatal(err)
	}
	_, err = f.Diff(t.Context(), admin, "", "support", "1", "2")
	wantKind(t, err, domain.NotFound, "Preset not found")
}

func TestDiffOfConfigs(t *testing.T) {
	f := newFixture(t)
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
	} {
		t.Run(name, func(t *testing.T) {
			if d := f.compare(t, configs(tc.from, tc.to)); string(d.Config) != tc.want {
				t.Errorf("got  %s\nwant %s", d.Config, tc.want)
			}
		})
	}
}

// Arrays that are too long to look for what moved are compared by index.
func TestDiffOfLongArrays(t *testing.T) {
	f := newFixture(t)
	list := func(from, to int) string {
		var text []string
		for i := from; i < to; i++ {
			text = append(text, strconv.Itoa(i))
		}
		return `{"x":[` + strings.Join(text, ",") + `]}`
	}
	if d := f.compare(t, configs(list(0, 256), list(1, 256))); string(d.Config) != `[{"op":"remove","path":"/x/0"}]` {
		t.Errorf("got %s, want one removal", d.Config)
	}
	for _, pair := range [][2]string{{list(0, 257), list(1, 257)}, {list(1, 257), list(0, 257)}} {
		d := f.compare(t, configs(pair[0], pair[1]))
		if operations := bytes.Count(d.Config, []byte(`"op"`)); operations != 257 {
			t.Errorf("got %d operations, want one for each index", operations)
		}
		checkPatch(t, pair[0], pair[1], d.Config)
	}
}

// However much there is in two configs, they may be equal.
func TestDiffOfEqualLargeConfigs(t *testing.T) {
	ones := "[" + strings.Repeat("1,", domain.MaxStoredSize/2-40) + "1]"
	if d := newFixture(t).compare(t, configs(`{"a":1,"b":`+ones+`}`, `{"b":`+ones+`, "a":1}`)); string(d.Config) != "[]" {
		t.Errorf("got %.100s, want no operation", d.Config)
	}
}

// decoded is a JSON value with its numbers as they are written.
func decoded(t testing.TB, text []byte) (value any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return value
}

// checkPatch applies a patch to from as RFC 6902 has it, and wants to.
func checkPatch(t testing.TB, from, to string, patch []byte) {
	t.Helper()
	var operations []map[string]json.RawMessage
	if err := json.Unmarshal(patch, &operations); err != nil {
		t.Fatal(err)
	}
	document := decoded(t, []byte(from))
	for _, o := range operations {
		var op, path string
		if json.Unmarshal(o["op"], &op) != nil || json.Unmarshal(o["path"], &path) != nil {
			t.Fatalf("got operation %s", o)
		}
		value, given := o["value"]
		if given == (op == "remove") {
			t.Fatalf("%s of %s has a value: %t", op, path, given)
		}
		var decodedValue any
		if given {
			decodedValue = decoded(t, value)
		}
		var tokens []string
		if path != "" {
			if path[0] != '/' {
				t.Fatalf("%q is no JSON Pointer", path)
			}
			tokens = strings.Split(path[1:], "/")
		}
		var err error
		if document, err = applied(document, tokens, op, decodedValue); err != nil {
			t.Fatalf("%s %s: %v\nfrom %.500s\nto   %.500s\npatch %.1000s", op, path, err, from, to, patch)
		}
	}
	if want := decoded(t, []byte(to)); !reflect.DeepEqual(document, want) {
		t.Fatalf("the patch %.1000s\nmakes %.1000v\nwant  %.1000v", patch, document, want)
	}
}

// applied returns value after an operation at a path below it.
func applied(value any, path []string, op string, with any) (any, error) {
	if len(path) == 0 {
		if op == "remove" {
			return nil, errors.New("the document cannot be removed")
		}
		return with, nil
	}
	name, rest := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0]), path[1:]
	switch container := value.(type) {
	case map[string]any:
		member, there := container[name]
		switch {
		case !there && (op != "add" || len(rest) > 0):
			return nil, fmt.Errorf("there is no %q", name)
		case len(rest) > 0:
			changed, err := applied(member, rest, op, with)
			container[name] = changed
			return container, err
		case op == "remove":
			delete(container, name)
		case op == "add" || op == "replace":
			container[name] = with
		default:
			return nil, errors.New("unknown operation")
		}
		return container, nil
	case []any:
		i, err := strconv.Atoi(name)
		if name == "-" && op == "add" && len(rest) == 0 {
			i = len(container)
		} else if err != nil || strconv.Itoa(i) != name || i < 0 {
			return nil, fmt.Errorf("%q is no index", name)
		}
		if i > len(container) || i == len(container) && (op != "add" || len(rest) > 0) {
			return nil, fmt.Errorf("there is no index %d", i)
		}
		switch {
		case len(rest) > 0:
			container[i], err = applied(container[i], rest, op, with)
			return container, err
		case op == "remove":
			return append(container[:i:i], container[i+1:]...), nil
		case op == "add":
			return append(container[:i:i], append([]any{with}, container[i:]...)...), nil
		case op == "replace":
			container[i] = with
			return container, nil
		}
		return nil, errors.New("unknown operation")
	}
	return nil, fmt.Errorf("nothing can be inside %T", value)
}

// random makes configs, and others that are like them.
type random struct{ *rand.Rand }

var (
	randomNames  = []string{"a", "b", "c", "", "a/b", "~", "~1", "0", "-", "é", `"`, "<"}
	randomLeaves = []string{"1", "2", "1.0", "12345678901234567890", "12345678901234567891", `"x"`, `"y"`, "true", "false", "null", "{}", "[]"}
)

func (r random) value(depth int) any {
	switch n := r.IntN(6); {
	case depth == 0 || n < 2:
		return json.RawMessage(randomLeaves[r.IntN(len(randomLeaves))])
	case n < 4:
		list := make([]any, r.IntN(7))
		for i := range list {
			list[i] = r.value(depth - 1)
		}
		return list
	default:
		object := make(map[string]any)
		for range r.IntN(5) {
			object[randomNames[r.IntN(len(randomNames))]] = r.value(depth - 1)
		}
		return object
	}
}

// like returns value with a few things changed.
func (r random) like(value any, depth int) any {
	if r.IntN(12) == 0 {
		return r.value(depth)
	}
	switch value := value.(type) {
	case []any:
		var list []any
		for _, element := range value {
			switch r.IntN(8) {
			case 0: // left out
			case 1:
				list = append(list, r.value(depth-1), element)
			default:
				list = append(list, r.like(element, depth-1))
			}
		}
		if len(list) > 1 && r.IntN(6) == 0 {
			i := r.IntN(len(list))
			list[0], list[i] = list[i], list[0]
		}
		if list == nil {
			list = []any{}
		}
		return list
	case map[string]any:
		object := make(map[string]any)
		for name, member := range value {
			switch r.IntN(8) {
			case 0: // left out
			case 1:
				object[randomNames[r.IntN(len(randomNames))]] = member
			default:
				object[name] = r.like(member, depth-1)
			}
		}
		return object
	}
	return value
}

func (r random) config(value any) string {
	text, err := json.Marshal(map[string]any{"tools": value})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestPatchesMakeTheOtherConfig(t *testing.T) {
	tier.NoRace(t)
	f := newFixture(t)
	r := random{rand.New(rand.NewPCG(26, 4))}
	changes := 0
	for range 600 {
		value := r.value(5)
		from, to := r.config(value), r.config(r.like(value, 5))
		d := f.compare(t, configs(from, to))
		checkPatch(t, from, to, d.Config)
		changes += bytes.Count(d.Config, []byte(`{"op":`))
	}
	if changes < 600 {
		t.Errorf("only %d operations were tried", changes)
	}
}

// The cost of hostile settings is bounded: if the patch could be too large, it replaces
// everything.
func TestDiffOfHostileConfigs(t *testing.T) {
	tier.Slow(t)
	const room = domain.MaxStoredSize - 1024
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
	f := newFixture(t)
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
			if len(tc.from) > domain.MaxStoredSize || len(tc.to) > domain.MaxStoredSize {
				t.Fatalf("got configs of %d and %d bytes, which cannot be stored", len(tc.from), len(tc.to))
			}
			a, b := f.put(t, "p", tc.from, nil), f.put(t, "p", tc.to, nil)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found, err := f.Diff(t.Context(), admin, "", "p", strconv.Itoa(a), strconv.Itoa(b))
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			var d diff
			if err := json.Unmarshal(found.JSON, &d); err != nil {
				t.Fatal(err)
			}
			if whole := string(d.Config) == `[{"op":"replace","path":"","value":`+tc.to+`}]`; whole != tc.whole {
				t.Errorf("all is replaced: %t, want %t", whole, tc.whole)
			}
			if !tc.whole {
				checkPatch(t, tc.from, tc.to, d.Config)
			}
			if most := 4<<20 + 2*domain.MaxStoredSize; len(found.JSON) > most {
				t.Errorf("got an answer of %d bytes, want at most %d", len(found.JSON), most)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
				t.Errorf("it took %d MiB", took>>20)
			}
			t.Logf("%d bytes, %d MiB allocated", len(found.JSON), (after.TotalAlloc-before.TotalAlloc)>>20)
		})
	}
}

func TestDiffOfPrompts(t *testing.T) {
	f := newFixture(t)
	for name, tc := range map[string]struct {
		from, to *string
		want     string // behind the two lines of names; empty for null
	}{
		"none":                {nil, nil, ""},
		"none and empty":      {nil, new(""), ""},
		"empty and none":      {new(""), nil, ""},
		"equal":               {new("a\nb"), new("a\nb"), ""},
		"first":               {nil, new("a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"no more":             {new("a\n"), nil, "@@ -1 +0,0 @@\n-a\n"},
		"end of line":         {new("a"), new("a\n"), "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		"spaces":              {new("a b\n"), new("a  b\n"), "@@ -1 +1 @@\n-a b\n+a  b\n"},
		"looks like a header": {new("-- x\n"), new("++ y\n"), "@@ -1 +1 @@\n--- x\n+++ y\n"},
		"some context":        {new("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), new("1\n2\n3\n4\nfive\n6\n7\n8\n9\n"), "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"},
		"no UTF-8 is broken":  {new("grün\n"), new("grüß\n"), "@@ -1 +1 @@\n-grün\n+grüß\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d := f.compare(t, prompts(tc.from, tc.to))
			switch want := fmt.Sprintf("--- compared@%d\n+++ compared@%d\n%s", d.From, d.To, tc.want); {
			case tc.want == "":
				if d.SystemPrompt != nil {
					t.Errorf("got %q, want null", *d.SystemPrompt)
				}
			case d.SystemPrompt == nil || *d.SystemPrompt != want:
				t.Errorf("got %v, want %q", d.SystemPrompt, want)
			}
		})
	}
	r := rand.New(rand.NewPCG(4, 26))
	text := func() string {
		var b strings.Builder
		for range r.IntN(40) {
			b.WriteString([]string{"a\n", "b\n", "\n", "c\r\n", "-\n", "+++ x\n", "@@ -1 +1 @@\n", "\\ no\n"}[r.IntN(8)])
		}
		return b.String() + []string{"", "end", " "}[r.IntN(3)]
	}
	for range 500 {
		from, to := text(), text()
		if r.IntN(2) == 0 { // mostly the same
			cut := r.IntN(len(from) + 1)
			to = from[:cut] + to[:min(len(to), r.IntN(6))] + from[cut:]
		}
		d := f.compare(t, prompts(&from, &to))
		if d.SystemPrompt == nil {
			if from != to {
				t.Fatalf("got null for %q and %q", from, to)
			}
			continue
		}
		if got, err := patched(from, *d.SystemPrompt); err != nil || got != to {
			t.Fatalf("the diff %q\nmakes %q, %v\nof    %q\nwant  %q", *d.SystemPrompt, got, err, from, to)
		}
	}
}

// Hostile prompts give no more than both of them.
func TestDiffOfHostilePrompts(t *testing.T) {
	tier.Slow(t)
	f := newFixture(t)
	const room = domain.MaxStoredSize - 16
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
			a, b := f.put(t, "p", "{}", &pair[0]), f.put(t, "p", "{}", &pair[1])
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found, err := f.Diff(t.Context(), admin, "", "p", strconv.Itoa(a), strconv.Itoa(b))
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			var d diff
			if err := json.Unmarshal(found.JSON, &d); err != nil {
				t.Fatal(err)
			}
			if got, err := patched(pair[0], *d.SystemPrompt); err != nil || got != pair[1] {
				t.Errorf("the diff makes something else, %v", err)
			}
			if most := 4*domain.MaxStoredSize + 1024; len(*d.SystemPrompt) > most {
				t.Errorf("got a diff of %d bytes, want at most %d", len(*d.SystemPrompt), most)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}
}

var hunk = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n$`)

// patched applies a unified diff, which must fit in every line.
func patched(from, diff string) (string, error) {
	const missing = "\\ No newline at end of file\n"
	diff = strings.ReplaceAll(diff, "\n"+missing, "\x00") // marks a line that does not end
	lines := func(text, ends string) (list []string) {
		for text != "" {
			i := strings.IndexAny(text, ends)
			if i < 0 {
				return append(list, text)
			}
			list, text = append(list, text[:i+1]), text[i+1:]
		}
		return list
	}
	source := lines(from, "\n")
	patch := lines(diff, "\n\x00")
	if len(patch) < 3 || !strings.HasPrefix(patch[0], "--- ") || !strings.HasPrefix(patch[1], "+++ ") {
		return "", errors.New("has no header")
	}
	var to strings.Builder
	done, written := 0, 0 // lines
	for patch = patch[2:]; len(patch) > 0; {
		m := hunk.FindStringSubmatch(patch[0])
		if m == nil {
			return "", fmt.Errorf("%q is no hunk", patch[0])
		}
		patch = patch[1:]
		number := func(text string, otherwise int) int {
			if n, err := strconv.Atoi(text); err == nil {
				return n
			}
			return otherwise
		}
		start, removed, at, added := number(m[1], 0), number(m[2], 1), number(m[3], 0), number(m[4], 1)
		if removed > 0 {
			start-- // lines count from 1, or from 0 if there are none
		}
		if added > 0 {
			at--
		}
		if start < done || start+removed > len(source) {
			return "", fmt.Errorf("hunk %q is out of place", m[0])
		}
		for ; done < start; done++ {
			to.WriteString(source[done])
			written++
		}
		if at != written {
			return "", fmt.Errorf("hunk %q begins at line %d", m[0], written)
		}
		for removed > 0 || added > 0 {
			if len(patch) == 0 {
				return "", errors.New("ends within a hunk")
			}
			kind, content := patch[0][0], strings.TrimSuffix(patch[0][1:], "\x00")
			patch = patch[1:]
			if kind != '+' {
				if done == len(source) || source[done] != content {
					return "", fmt.Errorf("line %d is not %q", done, content)
				}
				done++
				removed--
			}
			if kind != '-' {
				to.WriteString(content)
				written++
				added--
			}
		}
	}
	return to.String() + strings.Join(source[done:], ""), nil
}

func TestDiffOfTemplates(t *testing.T) {
	f := newFixture(t)
	for _, template := range []*domain.Template{
		nil,
		{Variables: []string{"city"}, Messages: []byte(`[ {"role":"user","content":"In {{city}}"} ]`)},
		{Variables: []string{"city"}, Messages: []byte(`[{"content":"In {{city}}","role":"user"}]`)},
		{Variables: []string{"town"}, Messages: []byte(`[{"role":"user","content":"In {{town}}","n":1.0}]`)},
	} {
		if _, err := f.CreatePresetVersion(t.Context(), domain.By(admin), "", "p", domain.Capture{Dialect: domain.Chat, Config: []byte(`{}`), Template: template}); err != nil {
			t.Fatal(err)
		}
	}
	for versions, want := range map[[2]string]string{
		{"1", "1"}: `[]`,
		{"2", "3"}: `[]`,
		{"2", "1"}: `[{"op":"replace","path":"","value":null}]`,
		{"1", "2"}: `[{"op":"replace","path":"","value":{"messages":[{"content":"In {{city}}","role":"user"}],"variables":["city"]}}]`,
		{"3", "4"}: `[{"op":"replace","path":"/messages/0/content","value":"In {{town}}"},{"op":"add","path":"/messages/0/n","value":1.0},{"op":"replace","path":"/variables/0","value":"town"}]`,
	} {
		found, err := f.Diff(t.Context(), user, "", "p", versions[0], versions[1])
		if err != nil || !strings.HasSuffix(string(found.JSON), `"system_prompt":null,"template":`+want+`}`) {
			t.Errorf("%v: got  %s, %v\nwant %s", versions, found.JSON, err, want)
		}
	}
}
