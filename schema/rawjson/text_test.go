package rawjson

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// checkTexts compares what the functions for strings return with the decoded texts of two
// values.
func checkTexts(t *testing.T, a, b jsontext.Value) {
	t.Helper()
	textA, okA := Text(a)
	textB, okB := Text(b)
	if got := IsUTF8(a); got != okA {
		t.Errorf("%s: got UTF-8 %t, want %t", a, got, okA)
	}
	for most := range len(textA) + 2 {
		head, ok := Head(a, most)
		isWhole := len(textA) <= most
		if !strings.HasPrefix(textA, head) || isWhole && head != textA || !isWhole && len(head) <= most || okA && (!ok || len(head) > most+utf8.UTFMax) {
			t.Errorf("%s: got the head %q, %t of %d bytes of %q", a, head, ok, most, textA)
		}
	}
	inside, ok := Inside(a)
	if ok != okA || ok && string(inside) != string(insideOf(Quote(textA))) {
		t.Errorf("%s: got the inside %s, %t", a, inside, ok)
	}
	if raw := string(insideOf(a)); utf8.ValidString(raw) { // the spelling is another text, if it has escapes
		if got, want := IsText(a, raw), okA && textA == raw; got != want {
			t.Errorf("%s and its spelling: got %t, want %t", a, got, want)
		}
	}
	inside, _ = Inside(b)
	if !okB {
		return
	}
	if got, want := IsText(a, textB), okA && textA == textB; got != want {
		t.Errorf("%s and %s: got %t, want %t", a, b, got, want)
	}
	isEscaped := string(inside) != textB
	if textB != "" && !isEscaped && (okA || !strings.ContainsRune(textB, utf8.RuneError)) {
		if got, want := Contains(a, textB), strings.Contains(textA, textB); got != want {
			t.Errorf("%s in %s: got %t, want %t", b, a, got, want)
		}
	}
	restA, restB := CutCommon(insideOf(a), inside)
	if !okA {
		return
	}
	if got, want := len(restB) == 0, strings.HasPrefix(textA, textB); got != want {
		t.Errorf("%s begins with %s: got %t, want %t", a, b, got, want)
	}
	if got, want := len(restA) == 0, strings.HasPrefix(textB, textA); got != want {
		t.Errorf("%s is the beginning of %s: got %t, want %t", a, b, got, want)
	}
	if rest, _ := Text(jsontext.Value(`"` + string(restA) + `"`)); len(restB) == 0 && rest != strings.TrimPrefix(textA, textB) {
		t.Errorf("%s without %s: got %q", a, b, rest)
	}
}

// Strings of the same text are the same in all spellings.
func TestTexts(t *testing.T) {
	spellings := [][]string{
		{"a", `\u0061`},
		{"@", `\u0040`},
		{`\/`, "/", `\u002F`, `\u002f`},
		{`\"`, `\u0022`},
		{`\\`, `\u005c`, `\u005C`},
		{`\n`, `\u000a`},
		{`\b`, `\u0008`},
		{`\f`, `\u000C`},
		{`\r`, `\u000d`},
		{`\t`, `\u0009`},
		{`\u0000`},
		{`\u001f`, `\u001F`},
		{"\x7f", `\u007f`},
		{"é", `\u00e9`, `\u00E9`},
		{"\u2028", `\u2028`},
		{"😀", `\ud83d\ude00`, `\uD83D\uDE00`},
		{"\ufffd", `\ufffd`},
		{`\ud83d`},
		{`\ude00`},
		{"\xff"},
		{"\xc3"},
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		var a, b strings.Builder
		for range random.IntN(5) {
			same := spellings[random.IntN(len(spellings))]
			a.WriteString(same[random.IntN(len(same))])
			if random.IntN(5) > 0 {
				b.WriteString(same[random.IntN(len(same))])
			}
		}
		checkTexts(t, jsontext.Value(`"`+a.String()+`"`), jsontext.Value(`"`+b.String()+`"`))
		if t.Failed() {
			return
		}
	}
	for _, value := range []jsontext.Value{nil, jsontext.Value("1"), jsontext.Value(`["a"]`)} {
		_, isHead := Head(value, 1)
		if _, isInside := Inside(value); isHead || isInside || IsUTF8(value) || IsText(value, "a") || Contains(value, "a") {
			t.Errorf("%s is taken for a string", value)
		}
	}
}

func FuzzTexts(f *testing.F) {
	f.Add([]byte(`"a\u0062"`), []byte(`"ab"`))
	f.Add([]byte(`"\ud83d\ude00\/"`), []byte(`"😀"`))
	f.Add([]byte(`"@pre\u0073et/x"`), []byte(`"@preset/"`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, text := range [][]byte{a, b} {
			if Check(text) != nil || text[0] != '"' || text[len(text)-1] != '"' {
				return
			}
		}
		checkTexts(t, a, b)
	})
}

// FindNotUTF8 finds names, and no other strings.
func TestFindNotUTF8(t *testing.T) {
	const bad, half = "\xff", `\ud83d`
	for _, tc := range []struct {
		text string
		want int // the place of a # in text, which is taken out
	}{
		{`{"model":"m","a":"` + bad + half + `",` + `"input":["` + half + `",{"text":"` + bad + `"}]}`, -1},
		{`{#"mo` + bad + `del":"m"}`, 0},
		{`{#"mo` + half + `del":"m"}`, 0},
		{`{#"mo\uDE00del":"m"}`, 0},
		{`{"a":"\ud83d\ude00","\ud83d\ude00":"\\ud83d","\\ud83d":1}`, -1},
		{`{"a":"\ud83d\ude00",#"` + bad + `" : 1}`, 0},
		{`{"a":[[{"b":{#"` + half + `"` + "\n\t\r :" + `null}}]]}`, 0},
		{`{"types":"` + bad + `","typ":"` + half + `","xtype":"` + bad + `"}`, -1},
		{`{"type":["` + bad + `"],"role":{"a":"` + half + `"},"b":"` + bad + `"}`, -1},
		{`"` + bad + `"`, -1},
		{`{"type":"` + bad, -1},
		{`{"` + bad + `": x, y`, 1},
		{"{\"a\nb\":\"x\",\"" + bad + `":1}`, -1}, // no JSON
		{bad, -1},
		{"", -1},
	} {
		text := strings.Replace(tc.text, "#", "", 1)
		if tc.want == 0 {
			tc.want = strings.Index(tc.text, "#")
		}
		if got := FindNotUTF8([]byte(text)); got != tc.want {
			t.Errorf("%q: got %d, want %d", text, got, tc.want)
		}
	}
}
