package rawjson

import (
	"strings"
	"testing"
)

// BenchmarkObject reads objects of 64 KB.
func BenchmarkObject(b *testing.B) {
	for name, item := range map[string]string{
		"text":    strings.Repeat("The quick brown fox jumps over the lazy dog. ", 40),
		"escapes": strings.Repeat(`Some plain \"text\" of a conversation,\nas it was sent.`, 40),
		"codes":   strings.Repeat(`\u4e2d\u6587`, 200),
		"short":   `","a":"twenty-two characters.","b":"`,
		"numbers": `","n":[1,23.5,{"a":true,"b":null},-4e5],"s":"`,
	} {
		text := []byte(`{"list":[` + strings.Repeat(`{"role":"user","content":"`+item+`"},`, 64<<10/(len(item)+28)) + `{}]}`)
		b.Run(name+"/scanned", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				for _, err := range Object(text) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(name+"/found", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				for range Items(At(text, "list")) {
				}
			}
		})
	}
}
