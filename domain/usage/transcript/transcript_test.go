package transcript

import (
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// answerOf reads an answer in pieces of a size.
func answerOf(d domain.Dialect, streamed bool, text []byte, size int) Answer {
	r := New(d, streamed, nil)
	for piece := range slices.Chunk(text, size) {
		r.Write(bytes.Clone(piece))
	}
	return r.Close()
}

// TestGolden joins answers of all dialects, in pieces of any size, and compares them with golden files.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*-*.[sj]*")
	if err != nil || len(files) < 10 {
		t.Fatalf("got %d files and %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".golden.json") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		api, _, _ := strings.Cut(filepath.Base(file), "-")
		dialect := map[string]domain.Dialect{"chat": domain.Chat, "responses": domain.Responses, "messages": domain.Messages, "images": domain.Images}[api]
		golden := strings.TrimSuffix(file, filepath.Ext(file)) + ".golden.json"
		for _, size := range []int{len(text), 1, 7} {
			got, err := jsonv2.Marshal(answerOf(dialect, filepath.Ext(file) == ".sse", text, size), jsontext.WithIndent("  "))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s in pieces of %d: got %s, want %s (%v)", file, size, got, want, err)
			}
		}
	}
}

// TestInput reads requests of all dialects.
func TestInput(t *testing.T) {
	for _, tc := range []struct {
		dialect    domain.Dialect
		body, want string
	}{
		{
			domain.Chat, `{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{}}},{"type":"custom","custom":{"name":"g"}}],"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"image_url","image_url":{"url":"x"}}]},` +
				`{"role":"assistant","content":null,"reasoning":"Hm","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"ok"}]}`,
			`{"System":[],"Messages":[{"role":"system","parts":[{"type":"text","content":"Be brief."}]},{"role":"user","parts":[{"type":"text","content":"Hi"},{"type":"image_url","content":"{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}"}]},` +
				`{"role":"assistant","parts":[{"type":"reasoning","content":"Hm"},{"type":"tool_call","id":"c","name":"f","arguments":{"a":1}}]},{"role":"tool","parts":[{"type":"tool_call_response","id":"c","response":"ok"}]}],"Tools":[{"type":"function","name":"f","parameters":{}},{"type":"custom","name":"g"}]}`,
		},
		{domain.Responses, `{"instructions":"Be brief.","input":"Hi","tools":[{"type":"function","name":"f","strict":true},{"type":"web_search"}]}`, `{"System":[{"type":"text","content":"Be brief."}],"Messages":[{"role":"user","parts":[{"type":"text","content":"Hi"}]}],` +
			`"Tools":[{"type":"function","name":"f","strict":true},{"type":"web_search","name":"web_search"}]}`},
		{
			domain.Responses, `{"input":[{"role":"user","content":[{"type":"input_text","text":"Hi"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"ok"}]}`,
			`{"System":[],"Messages":[{"role":"user","parts":[{"type":"text","content":"Hi"}]},{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"f","arguments":{}}]},{"role":"tool","parts":[{"type":"tool_call_response","id":"c","response":"ok"}]}],"Tools":null}`,
		},
		{
			domain.Responses, `{"input":[{"role":"user","content":[{"type":"input_text","text":""},{"type":"input_text","text":"Hi"}]},{"role":"user","content":""},{"type":"function_call_output","call_id":"c"}]}`,
			`{"System":[],"Messages":[{"role":"user","parts":[{"type":"text","content":"Hi"}]},{"role":"user","parts":[]},{"role":"tool","parts":[{"type":"tool_call_response","id":"c","response":null}]}],"Tools":null}`,
		},
		{
			domain.Images, `{"prompt":"a cat","input_references":[{"type":"image_url","image_url":{"url":"x"}}]}`,
			`{"System":[],"Messages":[{"role":"user","parts":[{"type":"text","content":"a cat"},{"type":"image_url","content":"{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}"}]}],"Tools":null}`,
		},
		{
			domain.Messages, `{"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"web_search_20260209","name":"web_search"}],"system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"Hm"},{"type":"tool_use","id":"c","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"ok"}]}]}`,
			`{"System":[{"type":"text","content":"Be brief."}],"Messages":[{"role":"assistant","parts":[{"type":"reasoning","content":"Hm"},{"type":"tool_call","id":"c","name":"f","arguments":{"a":1}}]},{"role":"user","parts":[{"type":"tool_call_response","id":"c","response":"ok"}]}],"Tools":[{"type":"function","name":"f","parameters":{"type":"object"}},{"type":"web_search_20260209","name":"web_search"}]}`,
		},
	} {
		if got, err := jsonv2.Marshal(InputOf(tc.dialect, jsontext.Value(tc.body))); err != nil || string(got) != tc.want {
			t.Errorf("%s: got %s %v, want %s", tc.body, got, err, tc.want)
		}
	}
}

// TestAnswersAreBounded reads answers that are too long, as one event, many events, a body, and many calls.
func TestAnswersAreBounded(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", MaxSide/8)
	event := func(text string) string {
		return `data: {"choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
	}
	for _, tc := range []struct {
		name     string
		streamed bool
		text     string
		least    int
	}{
		{"one event", true, event(long), MaxSide - 2*slack},
		{"many events", true, strings.Repeat(event("lorem ipsum "), MaxSide/8), MaxSide - slack},
		{"a body", false, `{"choices":[{"message":{"content":"` + long + `"}}]}`, MaxSide - 2*slack},
		{"many calls", true, strings.Repeat(`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"a","function":{"arguments":"aaaaaaa"}}]}}]}`+"\n\n", MaxSide/4), 1},
	} {
		reserved, most := 0, 0
		r := New(domain.Chat, tc.streamed, func(n int) bool { reserved += n; most = max(most, reserved); return true })
		r.Write([]byte(tc.text))
		got := r.Close()
		if !got.Cut || len(got.Messages) != 1 {
			t.Fatalf("%s: got cut %v and %d messages, want a message that is cut", tc.name, got.Cut, len(got.Messages))
		}
		size := 0
		for _, p := range got.Messages[0].Parts {
			size += len(p.Content) + len(p.Arguments)
		}
		if size < tc.least || size > MaxSide || most > 4*MaxSide {
			t.Errorf("%s: got %d bytes, and %d reserved; want %d to %d", tc.name, size, most, tc.least, MaxSide)
		}
	}
}

// TestRefusedMemory reads answers for which there is no memory from some point on. Nothing of them is kept.
func TestRefusedMemory(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", 10_000)
	for _, text := range []string{
		`{"choices":[{"message":{"content":"` + long + `"}}]}`, `{"content":[{"type":"text","text":"` + long + `"}]}`, `{"error":{"message":"` + long + `"}}`,
		`{"output":[{"type":"message","content":[{"type":"output_text","text":"` + long + `"}]}]}`, `{"data":[{"revised_prompt":"` + long + `"}]}`,
	} {
		for _, d := range dialects {
			for _, streamed := range []bool{false, true} {
				if streamed {
					text = "data: " + text + "\n\n"
				}
				for most := 0; ; most += grant {
					reserved, refused := 0, false
					r := New(d, streamed, func(n int) bool {
						refused = refused || reserved+n > most
						if !refused {
							reserved += n
						}
						return !refused
					})
					for piece := range slices.Chunk([]byte(text), 1000) {
						if r.Write(piece); cap(r.event.text)+2*r.size > reserved {
							t.Fatalf("%s: %d bytes are kept, and %d reserved", d, cap(r.event.text)+2*r.size, reserved)
						}
					}
					got := r.Close()
					if !refused {
						break
					}
					if !got.Cut || len(got.Messages) > 0 || r.event.text != nil {
						t.Fatalf("%s with %d bytes: got %+v, want a cut and nothing else", d, most, got)
					}
				}
			}
		}
	}
}

// TestCutsOfNothing has long data without a text of the answer. Those of a stream cut nothing that comes after.
func TestCutsOfNothing(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", MaxSide/8)
	for _, d := range dialects {
		for _, streamed := range []bool{false, true} {
			text := `{"type":"error","error":{"message":"` + long + `"}}`
			if streamed {
				text = "data: " + text + "\n\n"
			}
			if got := answerOf(d, streamed, []byte(text), len(text)); len(got.Messages) > 0 || got.Cut == streamed {
				t.Errorf("%s, streamed %v: got %+v", d, streamed, got)
			}
		}
	}
	got := answerOf(domain.Responses, true, []byte(`data: {"type":"response.created","response":{"status":"in_progress","instructions":"`+long+`"}}`+"\n\n"+
		`data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hello"}`+"\n\n"), 1<<20)
	if got.Cut || len(got.Messages) != 1 || got.Messages[0].Parts[0].Content != "Hello" {
		t.Errorf("after a long event: got %+v", got)
	}
}

// TestFilesInStreams has files in the small deltas of streams, before and after text.
func TestFilesInStreams(t *testing.T) {
	image := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("\x89PNG xyz!"), 100_000))
	size := fmt.Sprintf("[%d bytes]", len(image)*3/4)
	for _, tc := range []struct {
		dialect            domain.Dialect
		event, begin, want string
	}{
		{domain.Chat, `{"choices":[{"delta":{"content":"%s"}}]}`, "a ![](data:image/png;base64,", "a ![](data:image/png;base64," + size + ") b"},
		{domain.Chat, `{"choices":[{"delta":{"content":"%s"}}]}`, "", size + ") b"},
		{domain.Messages, `{"type":"content_block_delta","index":0,"delta":{"partial_json":"%s"}}`, `\"`, `"\"` + size + `) b"`},
	} {
		var stream strings.Builder
		pieces := []string{tc.begin}
		for piece := range slices.Chunk([]byte(image), 100) {
			pieces = append(pieces, string(piece))
		}
		for _, piece := range append(pieces, ") b") {
			fmt.Fprintf(&stream, "data: "+tc.event+"\n\n", piece)
		}
		got := answerOf(tc.dialect, true, []byte(stream.String()), 4096)
		if p := got.Messages[0].Parts[0]; p.Content+string(p.Arguments) != tc.want || !got.Files || got.Cut {
			t.Errorf("%s: got %.300s, files %v, cut %v; want %s", tc.event, p.Content+string(p.Arguments), got.Files, got.Cut, tc.want)
		}
	}
}

// TestNoKeyIsCutOpen has a key at each place around the cut. Nothing of it may be seen.
func TestNoKeyIsCutOpen(t *testing.T) {
	const key = "caddypresets_inf_3SXTyFGUBLWZWtF8ifj4YLMMIIq9TdFDE5kvRQRMdFc3hZEJQ"
	for at := MaxSide - 200; at < MaxSide+200; at += 13 {
		text := strings.Repeat("word ", at/5) + key + strings.Repeat(" word", slack)
		got := answerOf(domain.Chat, false, []byte(`{"choices":[{"message":{"content":"`+text+`"}}]}`), 1<<20)
		if content := got.Messages[0].Parts[0].Content; strings.Contains(content, "caddypresets") {
			t.Fatalf("with a key at %d: got …%s", at, content[len(content)-100:])
		}
		var c Copy
		c.Add([]byte(text))
		if side := c.End(); !side.Cut || len(side.Text) > MaxSide || bytes.Contains(side.Text, []byte("caddypresets")) {
			t.Fatalf("with a key at %d: got %d bytes", at, len(side.Text))
		}
	}
}

// linesOf breaks base64 into lines, as mail has it.
func linesOf(data, lineBreak string) (text string) {
	for line := range slices.Chunk([]byte(data), 76) {
		text += string(line) + lineBreak
	}
	return text
}

func TestCopy(t *testing.T) {
	data := strings.Repeat("AbC+/9", 100)
	for _, tc := range []struct {
		name, text, want   string
		cut, files, hasKey bool
	}{
		{name: "as it is", text: `{"a" : [1, "x\n\"ü\"", {"b": null}]}`, want: `{"a" : [1, "x\n\"ü\"", {"b": null}]}`},
		{name: "escapes", text: `["\u0041\/\u000a\u00e9\u0022"]`, want: `["A/\u000a\u00e9\u0022"]`},
		{name: "data URL", text: `["data:image/png;base64,AAAA","x"]`, want: `["data:image/png;base64,[3 bytes]","x"]`, files: true},
		{name: "data URL in a text", text: `["![](data:image/png;base64,` + data + `) see"]`, want: `["![](data:image/png;base64,[450 bytes]) see"]`, files: true},
		{name: "Anthropic's", text: `{"source":{"type":"base64","media_type":"image/png","data":"` + data[:80] + `"}}`, want: `{"source":{"type":"base64","media_type":"image/png","data":"[60 bytes]"}}`, files: true},
		{name: "a file of any name", text: `{"x":"` + data + `"}`, want: `{"x":"[450 bytes]"}`, files: true},
		{name: "with escaped slashes", text: `{"x":"` + strings.ReplaceAll(data, "/", `\/`) + `"}`, want: `{"x":"[450 bytes]"}`, files: true},
		{name: "in lines", text: `{"x":"` + linesOf(data[:580], `\n`) + `and"}`, want: `{"x":"[435 bytes]\nand"}`, files: true},
		{name: "in lines, then more", text: `{"x":"` + linesOf(data[:590], `\r\n`) + `and\r\n more"}`, want: `{"x":"[442 bytes]\r\nand\r\n more"}`, files: true},
		{name: "in lines, escaped", text: `{"x":"{\"y\":\"` + linesOf(data, `\\n`) + `\"}"}`, want: `{"x":"{\"y\":\"[450 bytes]\\n\"}"}`, files: true},
		{name: "data URL in lines", text: `{"x":"data:image/png;BASE64,` + linesOf(data[:200], `\\\\n`) + `"}`, want: `{"x":"data:image/png;BASE64,[150 bytes]\\\\n"}`, files: true},
		{name: "lines with a quote", text: `{"x":"` + data[:76] + `\n` + data[:76] + `\"\\x"}`, want: `{"x":"` + data[:76] + `\n` + data[:76] + `\"\\x"}`},
		{name: "behind an escape", text: `{"x":"\n` + data + `"}`, want: `{"x":"\n[450 bytes]"}`, files: true},
		{name: "a rule", text: `{"x":"` + strings.Repeat("-", 300) + ` and"}`, want: `{"x":"` + strings.Repeat("-", 300) + ` and"}`},
		{name: "a path", text: `{"x":"` + strings.Repeat("node_modules/a1/", 30) + `"}`, want: `{"x":"` + strings.Repeat("node_modules/a1/", 30) + `"}`},
		{name: "hashes", text: `{"x":"` + strings.Repeat(strings.Repeat("0123abcd", 8)+`\n`, 9) + `"}`, want: `{"x":"` + strings.Repeat(strings.Repeat("0123abcd", 8)+`\n`, 9) + `"}`},
		{name: "a short text", text: `{"data":"hello"}`, want: `{"data":"hello"}`},
		{name: "a text after a long word", text: `{"x":"` + data + ` and"}`, want: `{"x":"[450 bytes] and"}`, files: true},
		{name: "a name is no value", text: `["data","` + data[:80] + `"]`, want: `["data","` + data[:80] + `"]`},
		{name: "our key", text: `{"x":"caddypresets_inf_3SXTyFGUBLWZWtF8ifj4"}`, want: `{"x":"[key]"}`, hasKey: true},
		{name: "our key, escaped", text: `{"x":"cadd\u0079presets_mgmt_3SXT"}`, want: `{"x":"[key]"}`, hasKey: true},
		{name: "known keys", text: `{"x":"sk-or-v1-0123456789abcdef0123\nsk-ant-0123456789abcdef0123 AKIA0123456789ABCDEF"}`, want: `{"x":"[key]\n[key] [key]"}`, hasKey: true},
		{name: "private key", text: `{"x":"a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b"}`, want: `{"x":"a [key]-----END RSA PRIVATE KEY----- b"}`, hasKey: true},
	} {
		for _, size := range []int{1, 3, 1000} {
			var c Copy
			for piece := range slices.Chunk([]byte(tc.text), size) {
				c.Add(piece)
			}
			got := c.End()
			if string(got.Text) != tc.want || !got.IsJSON || got.Cut || got.Files != tc.files || got.Keys != tc.hasKey {
				t.Errorf("%s in pieces of %d: got %+v %s, want %s", tc.name, size, got, got.Text, tc.want)
			}
		}
	}
	var c Copy
	c.Add([]byte("no JSON"))
	if got := c.End(); got.IsJSON || string(got.Text) != "no JSON" {
		t.Errorf("got %+v", got)
	}
}

// TestCutsAreJSON cuts a text at each byte. Its beginning is JSON, and has whole texts in the place of values alone.
func TestCutsAreJSON(t *testing.T) {
	const text = `{"a":"x\n\\\"\u00e9\ud83d\ude00ü","b":[1,"two",{"c":true,"d":"\u000a"},[]],"e":-1.5e3,"f":{}}`
	for end := range len(text) {
		closed := closeJSON(bytes.ToValidUTF8([]byte(text[:end]), nil))
		if end > 0 && (rawjson.Check(closed) != nil || !utf8.Valid(closed)) {
			t.Errorf("of %s: got %s", text[:end], closed)
		}
	}
	for cut, want := range map[string]string{
		`{"a":"x`: `{"a":"x"}`, `{"a":"x"`: `{"a":"x"}`, `{"a":"x","b`: `{"a":"x"}`, `{"a":"x","b":tr`: `{"a":"x"}`, `[{"a":1,"b":[2,3`: `[{"a":1,"b":[2]}]`,
		`["x\ud83d`: `["x"]`, `["x\ud83d\ude`: `["x"]`, `["x\ud83d\ude00`: `["x\ud83d\ude00"]`, `["\`: `[""]`, `["\\`: `["\\"]`,
	} {
		if got := string(closeJSON([]byte(cut))); got != want {
			t.Errorf("of %s: got %s, want %s", cut, got, want)
		}
	}
}

// TestCutSides has sides at and beyond MaxSide, by less than the slack, too.
func TestCutSides(t *testing.T) {
	for size, isCut := range map[int]bool{MaxSide: false, MaxSide + 1: true, MaxSide + slack/2: true, MaxSide + slack: true, MaxSide + slack + 1: true, 2 * MaxSide: true} {
		text := `{"prompt":"` + strings.Repeat("words ", MaxSide)[:size-len(`{"prompt":""}`)] + `"}`
		var c Copy
		c.Add([]byte(text))
		side := c.End()
		if side.Cut != isCut || len(side.Text) > MaxSide || len(side.Text) < min(size, MaxSide)-slack || side.JSON() == nil {
			t.Errorf("a request of %d bytes: got %d, cut %v, JSON of %d", size, len(side.Text), side.Cut, len(side.JSON()))
		}
		answer := answerOf(domain.Messages, false, []byte(`{"content":[{"type":"text","text":"Hi"},{"type":"text","text":"`+text[len(`{"prompt":"`):len(text)-2]+`"}]}`), len(text))
		if kept := len(answer.Messages[0].Parts[0].Content) + len(answer.Messages[0].Parts[1].Content); kept > MaxSide || kept < min(size, MaxSide)-2*slack || answer.Cut != (kept < size-len(`{"prompt":""}`)+len("Hi")) {
			t.Errorf("an answer of %d bytes: got %d, cut %v", size, kept, answer.Cut)
		}
	}
}

var dialects = []domain.Dialect{domain.Chat, domain.Responses, domain.Messages, domain.Images}

// FuzzReader reads anything as a stream and as a body of each dialect, also beyond a small bound and without memory.
// Pieces do not matter.
func FuzzReader(f *testing.F) {
	files, _ := filepath.Glob("testdata/*-*.[sj]*")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		f.Add(text, uint16(len(text)/2))
	}
	f.Add([]byte("data: {\"type\":\"error\",\"error\":{\"message\":\"too long\"}}\n\n"), uint16(40))
	f.Fuzz(func(t *testing.T, text []byte, bound uint16) {
		if len(text) == 0 {
			return
		}
		for _, most := range []int{MaxSide + slack, int(bound)} {
			maxRead = most
			for _, d := range dialects {
				for _, streamed := range []bool{true, false} {
					want, err := jsonv2.Marshal(answerOf(d, streamed, text, len(text)))
					if err != nil {
						t.Fatal(err)
					}
					if got, _ := jsonv2.Marshal(answerOf(d, streamed, text, 3)); !bytes.Equal(got, want) {
						t.Errorf("%q in pieces: got %s, want %s", text, got, want)
					}
					left := int(bound)
					r := New(d, streamed, func(n int) bool { left -= n; return left >= 0 })
					r.Write(text)
					if got := r.Close(); left < 0 && (!got.Cut || len(got.Messages) > 0) {
						t.Errorf("%q without memory: got %+v", text, got)
					}
				}
			}
		}
	})
}
