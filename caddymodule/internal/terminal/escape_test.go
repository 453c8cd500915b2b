package terminal

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	for _, tc := range []struct{ text, line, lines string }{
		{"", "", ""},
		{"Zoë – 東京 👩‍🚀 ok\\n", "Zoë – 東京 👩‍🚀 ok\\n", "Zoë – 東京 👩‍🚀 ok\\n"},
		{"a\nb\tc\r\n", `a\nb\tc\r\n`, "a\nb\tc\\r\n"},
		{"\x1b[31mred\x1b]0;title\x07", `\x1b[31mred\x1b]0;title\a`, `\x1b[31mred\x1b]0;title\a`},
		{"c1: \u009b31m", `c1: \u009b31m`, `c1: \u009b31m`},
		{"not UTF-8: \x9b31m\xff", `not UTF-8: \x9b31m\xff`, `not UTF-8: \x9b31m\xff`},
		{"\u202egnp.exe\u2066\u061c\u200f", `\u202egnp.exe\u2066\u061c\u200f`, `\u202egnp.exe\u2066\u061c\u200f`},
		{"line\u2028separator\u2029", `line\u2028separator\u2029`, `line\u2028separator\u2029`},
		{"hidden \U000e0041\ufeff\u200b", `hidden \U000e0041\ufeff\u200b`, `hidden \U000e0041\ufeff\u200b`},
		{"\x00\x7f", `\x00\x7f`, `\x00\x7f`},
		{"می\u200cخواهم \u0600", "می\u200cخواهم \u0600", "می\u200cخواهم \u0600"},
	} {
		if got := Escape(tc.text); got != tc.line {
			t.Errorf("%q in a line: got %q, want %q", tc.text, got, tc.line)
		}
		if got := EscapeText(tc.text); got != tc.lines {
			t.Errorf("%q in a text: got %q, want %q", tc.text, got, tc.lines)
		}
	}
	for text, want := range map[string]string{
		`{"a":"é\u001b"}`:                           `{"a":"é\u001b"}`,
		"{\n\"a\": \"\u009b\u202e\x7f\U000e0041\"}": "{\n" + `"a": "\u009b\u202e\u007f\udb40\udc41"}`,
		"\"\xff\"": "\"\ufffd\"",
	} {
		if got := string(EscapeJSON([]byte(text))); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestIndentJSON indents no JSON that is deeper than the API takes it.
func TestIndentJSON(t *testing.T) {
	nested := func(levels int) string {
		return `{"a":` + strings.Repeat("[", levels-1) + "1,\"\u202e\"" + strings.Repeat("]", levels-1) + "}"
	}
	for _, tc := range []struct {
		levels, breaks int
	}{{2, 5}, {128, 257}, {129, 0}, {9000, 0}} {
		text := nested(tc.levels)
		got := IndentJSON([]byte(text))
		if breaks := strings.Count(got, "\n"); breaks != tc.breaks {
			t.Errorf("%d levels: got %d line breaks, want %d", tc.levels, breaks, tc.breaks)
		}
		if flat := strings.NewReplacer(" ", "", "\n", "").Replace(got); flat != strings.ReplaceAll(text, "\u202e", `\u202e`) {
			t.Errorf("%d levels: got other JSON, %.100q", tc.levels, flat)
		}
	}
	for _, text := range []string{"", "{", strings.Repeat("[", 9000), strings.Repeat("[", 9000) + "x" + strings.Repeat("]", 9000)} {
		if got := IndentJSON([]byte(text)); got != text {
			t.Errorf("%.20q: got %.20q, want the same", text, got)
		}
	}
}

// FuzzEscape checks that nothing unsafe is left. Safe text stays as it is, and JSON stays the
// same JSON.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"", "mail", "\x1b[2J", "\u202e", "a\xffb", "\U000e0041", "{\"a\":\"\u0085\"}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line, lines := Escape(text), EscapeText(text)
		for _, got := range []string{line, lines} {
			if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return IsUnsafe(r) && r != '\n' && r != '\t' }) {
				t.Errorf("%q: got %q, which is not safe", text, got)
			}
		}
		if strings.ContainsAny(line, "\n\t") {
			t.Errorf("%q: got several lines, %q", text, line)
		}
		if utf8.ValidString(text) && !strings.ContainsFunc(text, IsUnsafe) && line != text {
			t.Errorf("%q is safe, and becomes %q", text, line)
		}
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid([]byte(text)) {
			text = string(quoted)
		}
		var before, after any
		escaped := EscapeJSON([]byte(text))
		if err := json.Unmarshal([]byte(text), &before); err != nil {
			return // a number that is too large
		}
		if err := json.Unmarshal(escaped, &after); err != nil {
			t.Fatalf("%q: got %q, %v", text, escaped, err)
		}
		first, _ := json.Marshal(before)
		second, _ := json.Marshal(after)
		if string(first) != string(second) {
			t.Errorf("%q: got %q, which means %s, want %s", text, escaped, second, first)
		}
	})
}
