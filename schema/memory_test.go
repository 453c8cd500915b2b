package schema_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestMemory checks that Check allocates at most ten times the size of a body, whatever its
// shape. The total includes freed memory, so it bounds the live memory at any time.
func TestMemory(t *testing.T) {
	tier.Slow(t)
	tier.NoRace(t)
	size := 4 << 20 / tier.Sample(4)
	// fill repeats what next returns between prefix and suffix, up to size.
	fill := func(prefix string, next func(i int) string, suffix string) string {
		var b strings.Builder
		b.Grow(size)
		b.WriteString(prefix)
		for i := 0; ; i++ {
			item := next(i)
			if b.Len()+len(item)+len(suffix)+1 > size {
				break
			}
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(item)
		}
		b.WriteString(suffix)
		return b.String()
	}
	repeat := func(prefix, item, suffix string) string {
		return fill(prefix, func(int) string { return item }, suffix)
	}
	// most is fill up to the number of values that are checked, when each item
	// has so many.
	most := func(prefix string, next func(i int) string, values int, suffix string) string {
		var b strings.Builder
		for i := range (schema.MaxValues - 8) / values {
			b.WriteString("," + next(i))
		}
		return prefix + b.String()[1:] + suffix
	}
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	member := func(value string) func(int) string {
		return func(i int) string {
			name := ""
			for n := i; n > 0 || name == ""; n /= 64 {
				name += digits[n%64 : n%64+1]
			}
			return `"` + name + `":` + value
		}
	}
	names := member("1")
	var manyNames strings.Builder // more than a decoder compares without a map
	for i := range 200 {
		manyNames.WriteString("," + names(i))
	}
	s := schemas(t)
	checkMemory(t, s.ResponsesRequest, size, map[string]string{
		"objects in input":             repeat(`{"input":[`, `{}`, `]}`),
		"numbers in input":             repeat(`{"input":[`, `1`, `]}`),
		"objects in tools":             repeat(`{"tools":[`, `{}`, `]}`),
		"numbers in tools":             repeat(`{"tools":[`, `1`, `]}`),
		"known tools":                  repeat(`{"tools":[`, `{"type":"shell"}`, `]}`),
		"broken functions":             repeat(`{"tools":[`, `{"type":"function"}`, `]}`),
		"broken settings":              repeat(`{"tools":[`, `{"type":"openrouter:fusion","parameters":{"max_tool_calls":0,"temperature":"","tools":[0]}}`, `]}`),
		"objects in one tool":          repeat(`{"tools":[{"type":"namespace","name":"n","description":"d","tools":[`, `{"type":"function"}`, `]}]}`),
		"objects in plugins":           repeat(`{"plugins":[`, `{}`, `]}`),
		"unknown plugins":              repeat(`{"plugins":[`, `{"id":"x"}`, `]}`),
		"objects in an unknown member": repeat(`{"x":[`, `{}`, `]}`),
		"objects in metadata":          repeat(`{"metadata":{"k":[`, `{}`, `]}}`),
		"objects for text":             repeat(`{"instructions":[`, `{}`, `]}`),
		"members of metadata":          fill(`{"metadata":{`, member(`""`), `}}`),
		"broken members of metadata":   fill(`{"metadata":{`, names, `}}`),
		"members of provider":          fill(`{"provider":{`, names, `}}`),
		"members of image_config":      fill(`{"image_config":{`, names, `}}`),
		"members of a tool":            fill(`{"tools":[{"type":"shell",`, names, `}]}`),
		"members of an unknown member": fill(`{"x":{`, names, `}}`),
		"members of input":             fill(`{"input":[{`, names, `}]}`),
		"members":                      fill(`{`, names, `}`),
		"members of many objects":      repeat(`{"x":[`, `{`+manyNames.String()[1:]+`}`, `]}`),
		"nested arrays":                repeat(`{"x":[`, strings.Repeat("[", 126)+strings.Repeat("]", 126), `]}`),
		"nested arrays in tools":       repeat(`{"tools":[`, strings.Repeat("[", 126)+strings.Repeat("]", 126), `]}`),
		"nested objects":               repeat(`{"x":[`, strings.Repeat(`{"":`, 126)+"0"+strings.Repeat("}", 126), `]}`),
		"too deep":                     strings.Repeat(`{"x":`, size/5),
		"long names":                   repeat(`{"metadata":{`, text(1<<15)+`:""`, `}}`),
		"long names of provider":       fill(`{"provider":{`, func(i int) string { return fmt.Sprintf(`"%d%s":0`, i, strings.Repeat(`\"`, 30000)) }, `}}`),
		"one long name":                `{"provider":{` + text(size/2-32) + `:0}}`,
		"duplicate long name":          `{"x":{` + text(size/4-32) + `:0,` + text(size/4-32) + `:0}}`,
		"a long string":                `{"model":` + text(size/2-32) + `}`,
		"a long string with escapes":   `{"user":"` + strings.Repeat(`\u00e9`, size/6-8) + `"}`,
		"strings in models":            repeat(`{"models":[`, `""`, `]}`),
		"long strings in models":       repeat(`{"models":[`, text(1000), `]}`),
		"numbers in models":            repeat(`{"models":[`, `1`, `]}`),
		"long numbers":                 repeat(`{"provider":{"max_price":{"prompt":1},"order":[`, `1`+strings.Repeat("0", 1000)+`e-1000`, `]}}`),
		// As much as is checked, and all of it wrong.
		"most tools":               most(`{"tools":[`, func(int) string { return "1" }, 1, `]}`),
		"most broken tools":        most(`{"tools":[`, func(int) string { return `{"type":":"}` }, 3, `]}`),
		"most broken functions":    most(`{"tools":[`, func(int) string { return `{"type":"function","name":1,"parameters":1,"description":1,"strict":1}` }, 7, `]}`),
		"most broken parameters":   most(`{"tools":[`, func(int) string { return `{"type":"openrouter:subagent","parameters":{"name":"."}}` }, 6, `]}`),
		"most metadata":            most(`{"metadata":{`, func(i int) string { return `"[` + names(i)[1:] }, 1, `}}`),
		"most members of provider": most(`{"provider":{`, names, 1, `}}`),
		"most variables":           most(`{"prompt":{"id":"","variables":{`, names, 1, `}}}`),
		"most models":              most(`{"models":[`, func(int) string { return `"@preset/"` }, 1, `]}`),
		"most orders":              most(`{"provider":{"order":[`, func(int) string { return `0` }, 1, `]}}`),
		"most conditions":          most(`{"stop_server_tools_when":[`, func(int) string { return `{"type":"step_count_is","step_count":1e-300}` }, 4, `]}`),
		"most of everything": `{"instructions":` + text(size/2-200<<10) + `,"provider":{"order":` + list(schema.MaxValues-100, "1") +
			most(`},`, names, 1, `}`),
		"huge numbers": repeat(`{"stop_server_tools_when":[`, `{"type":"step_count_is","step_count":1e308}`, `]}`),
	})
	const prompt = `{"role":"system","content":[{"type":"text","text":""}]}`
	checkMemory(t, s.ChatRequest, size, map[string]string{
		"objects in messages":      repeat(`{"messages":[`, `{}`, `]}`),
		"numbers in messages":      repeat(`{"messages":[`, `1`, `]}`),
		"shortest messages":        repeat(`{"messages":[`, `{"role":"tool"}`, `]}`),
		"messages with escapes":    repeat(`{"messages":[`, `{"r\u006fle":"\u0075ser"}`, `]}`),
		"messages with roles last": repeat(`{"messages":[`, `{"content":[{"text":[]}],"role":"user"}`, `]}`),
		"members of messages":      repeat(`{"messages":[`, `{`+manyNames.String()[1:]+`,"role":"user"}`, `]}`),
		"long messages":            repeat(`{"messages":[`, `{"role":"user","content":`+text(1000)+`}`, `]}`),
		"messages of no role":      repeat(`{"messages":[`, `{"role":"x"}`, `]}`),
		"prompts":                  repeat(`{"messages":[`, prompt, `]}`),
		"long prompts":             repeat(`{"messages":[`, `{"role":"system","content":`+text(1000)+`}`, `]}`),
		"parts of a prompt":        repeat(`{"messages":[{"role":"system","content":[`, `{"type":"text","text":""}`, `]}]}`),
		"one long prompt":          `{"messages":[{"role":"system","content":` + text(size/2-64) + `}]}`,
		"one long prompt in parts": `{"messages":[{"role":"system","content":[{"type":"text","text":` + text(size/2-64) + `}]}]}`,
		"members of logit_bias":    fill(`{"logit_bias":{`, names, `}}`),
		"most prompts":             most(`{"messages":[`, func(int) string { return `{"role":"system","content":""}` }, 4, `]}`),
		"most broken prompts":      most(`{"messages":[`, func(int) string { return `{"role":"system","content":[{}]}` }, 6, `]}`),
		"most broken parts":        most(`{"messages":[{"role":"system","content":[`, func(int) string { return `{"type":1,"text":1}` }, 4, `]}]}`),
		"most functions":           most(`{"tools":[`, func(int) string { return `{"type":"function","function":{"name":""}}` }, 6, `]}`),
		"most broken functions": most(`{"tools":[`, func(int) string {
			return `{"type":"function","function":{"name":1,"description":1,"parameters":1,"strict":1}}`
		}, 9, `]}`),
		"most broken web searches": most(`{"tools":[`, func(int) string { return `{"type":"web_search","engine":1,"max_results":"","mode":1}` }, 6, `]}`),
		"most logit_bias":          most(`{"logit_bias":{`, member(`""`), 1, `}}`),
	})
	checkMemory(t, s.MessagesRequest, size, map[string]string{
		"shortest messages":      repeat(`{"messages":[`, `{"role":"user"}`, `]}`),
		"messages of no role":    repeat(`{"messages":[`, `{"role":"x"}`, `]}`),
		"blocks of a prompt":     repeat(`{"system":[`, `{"type":"text","text":""}`, `]}`),
		"one long prompt":        `{"system":` + text(size/2-64) + `}`,
		"objects in tools":       repeat(`{"tools":[`, `{}`, `]}`),
		"most blocks":            most(`{"system":[`, func(int) string { return `{"type":"text","text":""}` }, 4, `]}`),
		"most broken blocks":     most(`{"system":[`, func(int) string { return `{"type":1,"text":1,"cache_control":1,"citations":1}` }, 6, `]}`),
		"most tools":             most(`{"tools":[`, func(int) string { return `{"name":"","input_schema":{}}` }, 5, `]}`),
		"most tools of a type":   most(`{"tools":[`, func(int) string { return `{"type":""}` }, 3, `]}`),
		"most broken tools":      most(`{"tools":[`, func(int) string { return `{}` }, 2, `]}`),
		"most of broken members": most(`{"tools":[`, func(int) string { return `{"name":1,"input_schema":1,"description":1,"cache_control":1}` }, 6, `]}`),
		"most broken edits":      most(`{"context_management":{"edits":[`, func(int) string { return `{}` }, 2, `]}}`),
		"most stop sequences":    most(`{"stop_sequences":[`, func(int) string { return `1` }, 1, `]}`),
	})
	checkMemory(t, s.ChatTemplate, size, map[string]string{
		"messages":             repeat(`{"messages":[`, `{"role":"user","content":""}`, `]}`),
		"parts":                repeat(`{"messages":[{"role":"user","content":[`, `{"type":"text","text":""}`, `]}]}`),
		"calls":                repeat(`{"messages":[{"role":"assistant","tool_calls":[`, `{"id":"","type":"function","function":{"name":"","arguments":""}}`, `]}]}`),
		"one long text":        `{"messages":[{"role":"user","content":` + text(size/2-64) + `}]}`,
		"most messages":        most(`{"messages":[`, func(int) string { return `{"role":"user","content":""}` }, 4, `]}`),
		"most broken messages": most(`{"messages":[`, func(int) string { return `{"role":"user","content":5}` }, 4, `]}`),
		"most broken parts":    most(`{"messages":[{"role":"user","content":[`, func(int) string { return `{"type":"text","text":5}` }, 5, `]}]}`),
		"most broken calls":    most(`{"messages":[{"role":"assistant","tool_calls":[`, func(int) string { return `{"id":5,"type":"function","function":{}}` }, 7, `]}]}`),
	})
	checkMemory(t, s.MessagesTemplate, size, map[string]string{
		"most broken blocks": most(`{"messages":[{"role":"user","content":[`, func(int) string { return `{"type":"text","text":5}` }, 5, `]}]}`),
	})
	checkMemory(t, s.ResponsesTemplate, size, map[string]string{
		"most broken items": most(`{"input":[`, func(int) string { return `{"role":5,"content":5}` }, 6, `]}`),
		"most broken parts": most(`{"input":[{"role":"user","content":[`, func(int) string { return `{"type":"input_text"}` }, 4, `]}]}`),
	})
}

// checkMemory checks what bodies of at most size bytes cost.
func checkMemory(t *testing.T, s *schema.Schema, size int, bodies map[string]string) {
	t.Helper()
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := s.Check([]byte(body))
			runtime.ReadMemStats(&after)
			allocated := after.TotalAlloc - before.TotalAlloc - uint64(len(body)) // the copy
			t.Logf("%d KiB for a body of %d KiB: %.100v", allocated>>10, len(body)>>10, err)
			limit := uint64(10 * size)
			if strings.HasPrefix(name, "most ") {
				limit = 10 * 4 << 20 // these bodies do not depend on the size
				if err != nil && strings.Contains(err.Error(), "too much") {
					t.Errorf("got %v, want as much as is checked", err)
				}
			}
			if allocated > limit {
				t.Errorf("got %d bytes allocated, want at most %d", allocated, limit)
			}
		})
	}
}
