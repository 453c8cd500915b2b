package caddymodule

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

var otherPaths = []string{
	"/v1/embeddings", "/v1/completions", "/v1/images/edits", "/v1/audio/speech", "/v1/moderations", "/v1/rerank", "/v1/responses/compact/x",
	"/v1/messages/batches", "/v1/chat/completions/x", "/v1//embeddings/", "/v1/x",
}

// TestPresetsOnOtherRoutes names presets on other routes below the base path. Each is
// refused, and the answer lists the routes that accept presets.
func TestPresetsOnOtherRoutes(t *testing.T) {
	tier.NoRace(t)
	s := start(t, inferring("max_body_size 100KB"))
	s.preset("writer", writer)
	const says = "presets work in POST /v1/chat/completions, /v1/responses, /v1/responses/compact, /v1/responses/input_tokens, /v1/messages, /v1/messages/count_tokens, /v1/images/generations and /v1/images"
	long := strings.Repeat("x", 90_000)
	for _, mode := range []string{"required", "everywhere", "optional", "off"} {
		s.reload(inferring("max_body_size 100KB", "keys "+mode))
		for _, path := range otherPaths {
			for name, request := range map[string]string{
				"JSON":           post(path, `{"model":"@preset/writer"}`, "Content-Type: application/json; charset=utf-8"),
				"no type":        post(path, `{"input":["`+long+`"],"model":"@preset/writer"}`),
				"as curl":        post(path, `{"model":"m@preset/writer@1"}`, "Content-Type: application/x-www-form-urlencoded"),
				"as fetch":       post(path, `{"model":"@preset/absent"}`, "Content-Type: text/plain;charset=UTF-8"),
				"+json":          post(path, `{"models":["a","@preset/writer"]}`, "Content-Type: Application/Vnd.x+JSON"),
				"gzip":           post(path, caddytest.Gzip(`{"model":"@preset/writer"}`), "Content-Type: application/json", "Content-Encoding: gzip"),
				"zstd":           post(path, caddytest.Encode(t, "zstd", `{"model":"@preset/writer"}`), "Content-Encoding: zstd"),
				"chunked":        postChunked(path, `{"model":"@preset/writer","input":"`+long+`"}`, nil),
				"a huge one":     post(path, `{"model":"@preset/writer","input":"`+long+long+`"}`),
				"a huge chunked": postChunked(path, `{"model":"@preset/writer","input":"`+long+long+`"}`, nil),
			} {
				r := exchange(t, s.address, strings.Replace(request, "\r\n", "\r\n"+bearer(inferenceSecret)+"\r\n", 1))
				if r.status != 400 || !strings.Contains(r.body, says) || r.header.Get("Content-Type") != "application/json" {
					t.Errorf("keys %s, %s, %s: got %v", mode, path, name, r)
				}
				s.upstream.none(t)
			}
		}
	}
	s.ask("/v1/embeddings", `{"input":"","model":"@preset/writer"}`).wantError(t, 400, "Invalid request parameters: /model: must not refer to a preset: "+says)
	s.ask("/v1/messages/batches", `{"requests":[{"custom_id":"a","params":{"model":"@preset/writer"}}]}`).want(t, 400, `{"type":"error","error":{"type":"invalid_request_error"`, "/requests/0/params/model")
	s.ask("/v1/responses/compact/x", `{"model":"@preset/writer"}`).want(t, 400, `{"error":{"code":400,"type":"invalid_prompt",`)
	s.upstream.none(t)
	if got := s.metric(`caddy_presets_resolutions_total{operation="inference_other",result="refused"}`); got == "" || got == "0" {
		t.Errorf("got %q refusals in the metrics", got)
	}
	s.reload(inferring() + "\nbase_path /ai")
	s.ask("/ai/embeddings", `{"model":"@preset/writer"}`).want(t, 400, "POST /ai/chat/completions")
	s.ask("/v1/embeddings", `{"model":"@preset/writer"}`).want(t, 202)
	s.upstream.all()
	s.reload(standard)
	s.ask("/v1/embeddings", `{"model":"@preset/writer"}`).want(t, 202)
}

// TestEncodedBodiesOfStrangers checks that a stranger cannot make the handler decode and search
// a large text with a small body.
func TestEncodedBodiesOfStrangers(t *testing.T) {
	tier.NoRace(t)
	s := start(t, inferring("keys required"))
	for _, coding := range knownEncodings {
		for size, status := range map[int]int{peekSize: 400, peekSize + 1: 202} {
			const begin, end = `{"model":"@preset/writer","input":"`, `"}`
			body := caddytest.Encode(t, coding, begin+strings.Repeat("x", size-len(begin+end))+end)
			encoding := "Content-Encoding: " + coding
			for _, key := range []string{"X-None: 1", bearer("caddypresets_inf_x")} {
				s.do("POST", "/v1/embeddings", body, encoding, key).want(t, status)
			}
			s.do("POST", "/v1/embeddings", body, encoding, bearer(inferenceSecret)).want(t, 400)
		}
	}
}

// TestOtherRoutesPass sends requests without a preset to other routes. They pass unchanged,
// whatever their size.
func TestOtherRoutesPass(t *testing.T) {
	tier.NoRace(t)
	s := start(t, inferring("max_body_size 100KB", "keys off"))
	stock := s.beside("")
	random := make([]byte, 150_000) // cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	bodies := map[string]string{
		"empty":               "",
		"JSON":                `{"model" : "m" ,"preset":"writer","input":"use @preset/writer"}` + "\n",
		"an array":            `[{"model":"@preset/writer"}]`,
		"binary":              "\x00\xff\xfe preset \x80\r\n",
		"cut":                 `{"input":"preset`,
		"of the limit":        `{"preset":"` + strings.Repeat("x", 100_000-len(`{"preset":""}`)) + `"}`,
		"one more":            `{"preset":"` + strings.Repeat("x", 100_001-len(`{"preset":""}`)) + `"}`,
		"a megabyte":          `{"preset":"` + strings.Repeat("x", 1<<20) + `"}`,
		"beyond what is read": `{"input":"` + strings.Repeat("x", 1<<20) + `","model":"@preset/writer"}`,
		"gzip":                caddytest.Gzip(`{"model":"m","preset":"p"}`),
		"gzip of a megabyte":  caddytest.Gzip(`{"model":"@preset/writer","input":"` + strings.Repeat("x", 1<<20) + `"}`),
		"gzip, larger":        caddytest.Gzip(`{"model":"@preset/writer","input":"` + base64.StdEncoding.EncodeToString(random) + `"}`),
		"another coding":      `{"model":"@preset/writer"}`,
	}
	for name, body := range bodies {
		coding := "X-None: 1"
		switch {
		case strings.HasPrefix(name, "gzip"):
			coding = "Content-Encoding: gzip"
		case name == "another coding":
			coding = "Content-Encoding: compress"
		}
		for framing, request := range map[string]string{
			"length":   post("/v1/embeddings?x=%zz", body, coding, "Content-Type: application/json", "Authorization: Bearer sk-foreign"),
			"chunked":  postChunked("/v1/embeddings", body, nil, coding, "Expect: 100-continue"),
			"trailers": postChunked("/v1/embeddings", body, []string{"X-Checksum: 1"}, coding),
		} {
			s.wantAsStock(name+", "+framing, stock, request, body)
		}
	}
}

// TestBodiesThatAreNotWaitedFor checks which bodies are read before they are forwarded.
// Uploads are not read, and large bodies only at their beginning. Where a key is required,
// a stranger's body is read no further either. The gateway gets the request before the rest
// is sent.
func TestBodiesThatAreNotWaitedFor(t *testing.T) {
	s := start(t, inferring("keys required", "max_body_size 100KB"))
	key := bearer(inferenceSecret)
	for name, headers := range map[string]string{
		"multipart":     lines([]string{key, "Content-Type: multipart/form-data; boundary=x", "Content-Length: 99999"}),
		"audio":         lines([]string{key, "Content-Type: audio/wav", "Content-Length: 99999"}),
		"large":         lines([]string{key, "Content-Length: 100001"}),
		"of-a-stranger": lines([]string{"Content-Type: application/json", "Content-Length: 99999"}),
	} {
		conn := s.dial()
		fmt.Fprintf(conn, "POST /v1/%s HTTP/1.1\r\nHost: x\r\n%s\r\n%s", name, headers, strings.Repeat(" ", peekSize))
		if !s.eventually(func() bool { return s.upstream.saw("POST /v1/" + name) }) {
			t.Errorf("%s: the gateway got nothing", name)
		}
		conn.Close()
	}
}

// TestRestOfALargeBodyHasNoDeadline checks that the rest of a large body has no deadline
// after its beginning was read. A deadline of Caddy's read_body stays as it is.
func TestRestOfALargeBodyHasNoDeadline(t *testing.T) {
	const size = 200_000
	h := &Handler{BasePath: "/v1", Inference: &Inference{Keys: keysOff, MaxBodySize: 100_000}}
	for readTimeout, want := range map[time.Duration][]bool{0: {true, false}, time.Minute: nil} {
		w := &deadlineRecorder{ResponseWriter: httptest.NewRecorder()}
		r := httptest.NewRequest("POST", "/v1/embeddings", strings.NewReader(strings.Repeat(" ", size)))
		server := &http.Server{ReadTimeout: readTimeout}
		c := &inferenceCall{call: h.newCall(w, r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, server))), path: "embeddings"}
		c.held.Limit = defaultMaxMemory
		if err := c.refuseReference(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(w.deadlines, want) {
			t.Errorf("read_body %v: got deadlines %v, want %v", readTimeout, w.deadlines, want)
		}
		if body, err := io.ReadAll(c.r.Body); len(body) != size || err != nil {
			t.Errorf("read_body %v: %d bytes go upstream, %v, want %d", readTimeout, len(body), err, size)
		}
	}
}

// deadlineRecorder records whether each call to SetReadDeadline set a deadline or removed it.
type deadlineRecorder struct {
	http.ResponseWriter
	deadlines []bool
}

func (d *deadlineRecorder) SetReadDeadline(at time.Time) error {
	d.deadlines = append(d.deadlines, !at.IsZero())
	return nil
}

// TestRefusalsOnOtherRoutes checks that a refusal on another route has its clients'
// envelope, and is counted.
func TestRefusalsOnOtherRoutes(t *testing.T) {
	s := start(t, inferring())
	refused := func() int {
		n, _ := strconv.Atoi(s.metric(`caddy_presets_resolutions_total{operation="inference_other",result="refused"}`))
		return n
	}
	before := refused()
	for path, beginning := range map[string]string{
		"/v1/messages/batches": `{"type":"error","error":{"type":"authentication_error"`,
		"/v1/responses/x":      `{"error":{"code":401,"type":"invalid_api_key"`,
		"/v1/embeddings":       `{"error":{"code":401,`,
		"/elsewhere":           `{"error":{"code":401,`,
	} {
		if r := s.do("POST", path, `{"model":"m"}`, bearer("a-guess")); r.status != 401 || !strings.HasPrefix(r.body, beginning) {
			t.Errorf("%s: got %d %s, want 401 %s", path, r.status, r.body, beginning)
		}
	}
	if got := refused() - before; got != 4 {
		t.Errorf("got %d refusals on other routes, want 4", got)
	}
	s.upstream.none(t)
}
