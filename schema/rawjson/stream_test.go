package rawjson_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// streamed returns the tokens of a text in pieces of a size, and whether it is one whole value.
func streamed(text []byte, size int) (tokens []string, isWhole bool) {
	var s rawjson.Stream
	for piece := range slices.Chunk(text, max(size, 1)) {
		for s.Feed(slices.Clone(piece)); s.Next(); {
			token := fmt.Sprint(s.Kind, s.IsName, s.IsEscaped, s.Depth)
			if s.Kind == '"' || s.Kind == '0' {
				token += string(s.Value())
			}
			tokens = append(tokens, token)
		}
	}
	return tokens, s.IsWhole()
}

// FuzzStream reads any text in pieces. It accepts what Check accepts, and the pieces do not matter.
func FuzzStream(f *testing.F) {
	for _, text := range []string{
		"", " ", "{}", `{"a":[1,-0.5e+3,true,false,null,"x\n\u00e4",{"b":{}},[]] , "c" : "d"}`, `[1,]`, `{"a":1,}`, `{,}`, `[}`, `{]`, `{"a"}`, `{"a":}`, `{1:2}`,
		`"`, `"\x"`, `"\u12g4"`, `"\ud83d\ude00"`, "\"\t\"", `tru`, `nul`, `truex`, `1 2`, `{} {}`, `-`, `1e`, `1e+`, `01`, `.5`, `+1`, `NaN`, `1`, " 2 ", `]`, `,`, `[1:2]`, `{"a",1}`,
		`{"` + strings.Repeat("n", 300) + `":"` + strings.Repeat("v", 300) + `"}`, "\"\xff\"",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, isWhole := streamed(text, len(text))
		mayDiffer := len(text) > rawjson.MaxStreamDepth // by its depth
		if err := rawjson.Check(text); isWhole != (err == nil) && !mayDiffer {
			t.Errorf("%q: is whole: %t, but Check returns %v", text, isWhole, err)
		}
		for _, size := range []int{1, 2, 3, 7} {
			if got, whole := streamed(text, size); whole != isWhole || isWhole && !slices.Equal(got, want) {
				t.Errorf("%q in pieces of %d: got %q, %t, want %q, %t", text, size, got, whole, want, isWhole)
			}
		}
	})
}

// TestStreamLimits reads what is as deep and as long as may be, and more.
func TestStreamLimits(t *testing.T) {
	deep := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	digits := func(n int) string { return "[" + strings.Repeat("1", n) + "]" }
	for _, tc := range []struct {
		text    string
		isWhole bool
	}{
		{deep(rawjson.MaxStreamDepth), true},
		{deep(rawjson.MaxStreamDepth + 1), false},
		{digits(rawjson.MaxStreamToken), true},
		{digits(rawjson.MaxStreamToken + 1), true},
		{strings.Replace(digits(2*rawjson.MaxStreamToken), "[1", "[-1.0e", 1), true},
		{strings.Replace(digits(2*rawjson.MaxStreamToken), "[1", "[0", 1), false},
		{strings.Replace(digits(2*rawjson.MaxStreamToken), "1]", "1.]", 1), false},
		{"[" + strings.Repeat("1e", rawjson.MaxStreamToken) + "1]", false},
		{"[12" + strings.Repeat("+-", rawjson.MaxStreamToken) + ",3]", false},
		{`["` + strings.Repeat("x", 1<<20) + `"]`, true},
	} {
		for _, size := range []int{1, 3, 100, len(tc.text)} {
			if _, isWhole := streamed([]byte(tc.text), size); isWhole != tc.isWhole {
				t.Errorf("%.20s… of %d bytes in pieces of %d: is whole: %t, want %t", tc.text, len(tc.text), size, isWhole, tc.isWhole)
			}
		}
	}
}
