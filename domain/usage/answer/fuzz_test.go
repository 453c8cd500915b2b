package answer

import (
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// FuzzRead reads any bytes in any pieces, which must not matter.
func FuzzRead(f *testing.F) {
	dialects := []domain.Dialect{domain.Chat, domain.Responses, domain.Messages}
	for _, test := range shapes {
		d, contentType, body := shape(f, test.file)
		for i := range dialects {
			if dialects[i] == d {
				f.Add(uint8(i), contentType == sseType, true, uint64(len(body)), body)
			}
		}
	}
	for i := range dialects {
		for _, text := range edges {
			f.Add(uint8(i), true, i%2 == 0, uint64(i), []byte(text))
			f.Add(uint8(i), false, i%2 == 0, uint64(i), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, dialect uint8, streamed, complete bool, cuts uint64, body []byte) {
		contentType := jsonType
		if streamed {
			contentType = sseType
		}
		check(t, dialects[int(dialect)%len(dialects)], contentType, body, complete, cuts)
	})
}

// FuzzDecode decodes any bytes in any pieces. Its result does not depend on the pieces.
func FuzzDecode(f *testing.F) {
	names := []string{"gzip", "br", "zstd"}
	for _, file := range []string{"chat/openai.sse", "messages/anthropic.json"} {
		_, _, body := shape(f, file)
		for i, name := range names {
			f.Add(uint8(i), true, encoders[name](f, body))
		}
	}
	f.Fuzz(func(t *testing.T, encoding uint8, streamed bool, body []byte) {
		contentType := jsonType
		if streamed {
			contentType = sseType
		}
		name := names[int(encoding)%len(names)]
		for _, d := range []domain.Dialect{domain.Chat, domain.Messages} {
			whole := readCut(d, contentType, name, body, true, all)
			single := readCut(d, contentType, name, body, true, one)
			if whole.FirstContent.IsZero() != single.FirstContent.IsZero() {
				t.Fatalf("%s: first content %v whole, %v in bytes", name, whole.FirstContent, single.FirstContent)
			}
			if whole.FirstContent = single.FirstContent; whole != single {
				t.Fatalf("%s: seen\n%+v whole\n%+v in bytes", name, whole, single)
			}
		}
	})
}

// edges are texts that readers of JSON and SSE have got wrong.
var edges = []string{
	"", "\n", "\r\n\r\n", "\uFEFFdata: {}\n\n", "\uFEFF\uFEFFdata: {}\n\n", "data\n\n", "data:\ndata:\n\n", ":data: {}\n\n",
	"event: error\n\n", "event: error\ndata\n\n", "event: error\ndata: [DONE]\n\n", "event:response.failed\rdata:{}\r\r",
	"data: {\"usage\":{\"prompt_tokens\":1,\ndata: \"completion_tokens\":2}}\n\n",
	"data: {\"usage\":\r\ndata:{\"prompt_tokens\":1,\r\ndata:\"completion_tokens\":2}}\r\n",
	"data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"c\"}}]}\n\ndata: {\"usage\":null}\ndata: \n\ndata: {\"us\\u0061ge\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n",
	"data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"c\"}}]}\n\ndata: {\"usage\":null,\"usage\":{}}\n\n",
	"data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"c\"}}]}\n\ndata: {\"choices\":[\ndata: ],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n",
	`data: {"type":"response.completed","response":{"usage":{"input_tokens":1,"output_tokens":2},"usage":null}}` + "\n\n",
	`data: {"response":{"usage":{"input_tokens":1,"output_tokens":2}},"response":{},"type":"response.completed"}` + "\n\n",
	`data: {"type":"message_delta","usage":{"input_tokens":1,"output_tokens":2,"cost":1}}` + "\n\n" + `data: {"type":"message_delta","usage":{"input_tokens":null,"output_tokens":3,"cost":"1"}}`,
	`{"usage":{"prompt_tokens":1,"completion_tokens":2},"usage":{"prompt_tokens":3}}`,
	`{"usage":{"prompt_tokens":1.0,"completion_tokens":2.000}}`, `{"usage":{"prompt_tokens":1e1,"completion_tokens":2}}`,
	`{"usage":{"prompt_tokens":-1,"completion_tokens":2}}`, `{"usage":{"prompt_tokens":-0,"completion_tokens":2}}`,
	`{"usage":{"prompt_tokens":1000000000001,"completion_tokens":2}}`, `{"usage":{"prompt_tokens":"1","completion_tokens":2}}`,
	`{"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1},"prompt_tokens_details":[]}}`,
	`{"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":1e-7,"is_byok":true,"cost_details":{"upstream_inference_cost":2E+2}}}`,
	`{"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":1e999999999,"is_byok":true}}`,
	`{"usage":{"prompt_tokens":01}}`, `{"usage":{"prompt_tokens":1.}}`, `{"a":1,}`, `[1,]`, `{,}`, `{"a"}`, `{"a":}`, `[}`, `{]`, `"`, `"\x"`, `"\u12g4"`, "\"\t\"", `tru`, `nul`, `1 2`, `{} {}`, `-`, `1e`, `1e+`, `.5`, `+1`, `0x1`, `NaN`,
	`{"error":false}`, `{"error":""}`, `{"error":"\u0000"}`, `{"error":{}}`, `{"error":{},"error":null}`, `{"type":"error"}`, `{"status":"failed"}`,
	`{"model":"\ud83d\ude00"}`, "{\"model\":\"\xff\xfe\"}", `{"model":"a","model":1}`,
}
