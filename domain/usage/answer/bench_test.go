package answer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// streams are streams of 200 content events, by dialect, as the gateways write them.
func streams(tb testing.TB) map[string][]byte {
	tb.Helper()
	long := func(file, marker string) []byte {
		_, _, body := shape(tb, file)
		events := bytes.SplitAfter(body, []byte("\n\n"))
		var out []byte
		for _, e := range events {
			out = append(out, e...)
			if bytes.Contains(e, []byte(marker)) {
				for range 199 {
					out = append(out, e...)
				}
			}
		}
		return out
	}
	return map[string][]byte{
		"chat":      long("chat/openai-no-usage.sse", `"Hello"`),
		"chat null": long("chat/openai.sse", `"Hello"`),
		"responses": long("responses/openai.sse", `"Hel"`),
		"messages":  long("messages/anthropic.sse", "Hello"),
	}
}

// BenchmarkStream reads a stream of 200 content events, each in a write of its own.
func BenchmarkStream(b *testing.B) {
	for name, body := range streams(b) {
		var d domain.Dialect
		dialect, _, _ := strings.Cut(name, " ")
		if err := d.UnmarshalText([]byte(dialect)); err != nil {
			b.Fatal(err)
		}
		events := bytes.SplitAfter(body, []byte("\n\n"))
		for _, whole := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/whole=%t", name, whole), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r := New(d, sseType, "")
					for _, e := range events {
						if whole {
							r.Write(e, epoch)
						} else { // events that are not whole are parsed
							half := len(e) / 2
							r.Write(e[:half], epoch)
							r.Write(e[half:], epoch)
						}
					}
					if seen := r.Close(true); seen.FirstContent.IsZero() {
						b.Fatalf("no content in %+v", seen)
					}
				}
				b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(events)), "ns/event")
			})
		}
	}
}

// BenchmarkJSON reads bodies, each in one write.
func BenchmarkJSON(b *testing.B) {
	_, _, body := shape(b, "chat/openrouter.json")
	for _, size := range []int{2 << 10, 64 << 10} {
		text := strings.Repeat("All that glitters is not gold.\\n", size/32)
		body := bytes.Replace(body, []byte("Hello! How can I help?"), []byte(text), 1)
		for _, encoding := range []string{"", "gzip", "br", "zstd"} {
			encoded := body
			if encoding != "" {
				encoded = encoders[encoding](b, body)
			}
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, encoding), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					r := New(domain.Chat, jsonType, encoding)
					r.Write(encoded, time.Time{})
					if seen := r.Close(true); seen.Tokens != used {
						b.Fatalf("seen %+v", seen)
					}
				}
			})
		}
	}
}
