package files

import (
	"strings"
	"testing"
)

func TestJSONOf(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"a: 0.70\nb: [1e3, yes, 2026-01-01]\n", `{"a":0.70,"b":[1e3,"yes","2026-01-01"]}`},
		{"", "null"},
		{"# nothing\n", "null"},
		{"text", `"text"`},
		{"a: \"\\L\\P\\N\\r\\u2028\"\r\nb: 1\r\n", "{\"a\":\"\u2028\u2029\u0085\\r\u2028\",\"b\":1}"},
	} {
		got, err := JSONOf("front", []byte(test.text))
		if err != nil || string(got) != test.want {
			t.Errorf("%q: got %s, %v, want %s", test.text, got, err, test.want)
		}
	}
	for text, want := range map[string]string{
		"a: 1\na: 2\n":                      "front:2:1: /a: the name is there already",
		"a: [1\n":                           "front:",
		"a: !file x\n":                      "front:1:4: /a: !file is allowed only in the request",
		"a: &a [*a, *a]\n":                  "front:1:8: /a/0: an alias is not allowed",
		"a:\n  b: {{x}} is nice\n":          "front:2:3: {{ cannot begin a text: put the text in quotes",
		"a:\n  - *bold* text\n":             "front:2:3: * cannot begin a text: put the text in quotes",
		"a: {{x}}\n":                        "front:1:5: /a: a name must be a text: put a text with {{…}} in quotes",
		"a: \"x\\/y\"\n":                    "front:1:1: \\/ is an escape of JSON alone: write /",
		"\xff":                              "front:1:1: is not UTF-8",
		"a: 1\nb: 2 # x\u2028model: m\n":    "front:2:9: has an invisible end of a line: remove it, or write it as \\L in double quotes",
		"a: |\n  x\u2029  y\n":              "front:2:4: has an invisible end of a line: remove it, or write it as \\P",
		"a: \"x\u0085y\"\n":                 "front:1:6: has an invisible end of a line: remove it, or write it as \\N",
		"a: 1\r\nb: x\ry\u2028\n":           "front:2:5: has an invisible end of a line: remove it, or write it as \\r",
		"a: 0x10\n":                         "front:1:4: /a: ",
		"a: sk-" + strings.Repeat("a1", 12): "has the form of a secret",
	} {
		if got, err := JSONOf("front", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %s, %v, want %q", text, got, err, want)
		}
	}
}
