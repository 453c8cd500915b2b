package domain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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
	}
}

// However much there is in two configs, they may be equal.
func TestDiffOfEqualLargeConfigs(t *testing.T) {
	ones := "[" + strings.Repeat("1,", domain.MaxStoredSize/2-40) + "1]"
	if d := newFixture(t).compare(t, configs(`{"a":1,"b":`+ones+`}`, `{"b":`+ones+`, "a":1}`)); string(d.Config) != "[]" {
		t.Errorf("got %.100s, want no operation", d.Config)
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
			if most := 4*domain.MaxStoredSize + 1024; len(*d.SystemPrompt) > most {
				t.Errorf("got a diff of %d bytes, want at most %d", len(*d.SystemPrompt), most)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}
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
