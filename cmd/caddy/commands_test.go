package main_test

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

var updatePages = flag.Bool("update", false, "rewrite the output of the commands of docs/commands.md")

var (
	consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```")
	// vary are the parts of outputs that differ between runs, and what the page has there.
	vary = []struct {
		pattern     *regexp.Regexp
		replacement string
	}{
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "2026-11-25T08:30:00Z"},
		{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "01a1fd9a-8272-7f39-a41b-d0ecb9aea248"},
		{regexp.MustCompile(`\d+\.\d\d s`), "0.31 s"},
		{regexp.MustCompile(`milliseconds":\d+`), `milliseconds":310`},
	}
)

// TestCommandsPage runs the commands of docs/commands.md in one shell, and compares all that
// they print with the page. The server is that of the quick start, with a gateway that streams.
func TestCommandsPage(t *testing.T) {
	tier.Slow(t)
	bash, err := exec.LookPath("bash")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("bash is not installed")
	}
	gateway := httptest.NewServer(http.HandlerFunc(stream))
	t.Cleanup(gateway.Close)
	at := newPlace(t)
	example, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	site, _, _ := strings.Cut(string(example), "# The echo gateway")
	host, port, _ := net.SplitHostPort(at.address)
	p := at.start(t, at.file(t, "Caddyfile", site), "PRESETS_HOST="+host, "PRESETS_PORT="+port, "PRESETS_DATA="+filepath.Join(at.home, "data"), "PRESETS_UPSTREAM="+strings.TrimPrefix(gateway.URL, "http://"))
	key := strings.TrimSpace(p.key(t, "create", "--kind", "management", "--user", "ann"))
	for _, r := range [][3]string{
		{"POST", "/v1/workspaces", `{"name":"Team","slug":"team"}`},
		{"POST", "/v1/presets/tour-guide/messages?template=true", `{"model":"anthropic/claude-haiku","max_tokens":300,"system":"You know {{city}}.","messages":[{"role":"user","content":"Name three sights in {{city}}."}]}`},
		{"POST", "/v1/presets/summary/chat/completions", `{"model":"openai/gpt-5-mini","messages":[{"role":"system","content":"Sum up."}]}`},
		{"PATCH", "/v1/presets/summary", `{"managed_by":"files"}`},
		{"POST", "/v1/presets/email-copywriter/responses", `{"model":"openai/gpt-5","temperature":1.0,"instructions":"Write emails.\n"}`},
		{"POST", "/v1/presets/email-copywriter/responses?message=shorter", `{"model":"openai/gpt-5-mini","temperature":0.70,"instructions":"Write short emails.\nBe friendly.\n"}`},
		{"POST", "/v1/presets/email-copywriter/responses?designate=false&label=staging", `{"model":"openai/gpt-5-mini","temperature":0.20,"instructions":"Write short emails.\nBe very friendly.\n"}`},
		{"PATCH", "/v1/presets/email-copywriter", `{"description":"Used by the newsletter"}`},
	} {
		if status, body := p.do(t, r[0], r[1], key, r[2]); status > 201 {
			t.Fatalf("%v: got %d %s", r, status, body)
		}
	}

	page := filepath.Join("..", "..", "docs", "commands.md")
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(content), "\r\n", "\n")
	const separator = "\x1f"
	script := "exec 2>&1\n"
	commands := 0
	for _, block := range consoleBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				script += "printf '" + separator + "'\n" + command
				commands++
			}
		}
	}
	if commands < 20 {
		t.Fatalf("found %d commands", commands)
	}
	// The last command of the page is the script for completion. It is used like a shell does
	// when someone presses tab. The functions stand for the package bash-completion, and for a
	// builtin that works only there.
	script += "printf '" + separator + "'\n_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=(\"${COMP_WORDS[@]}\") cword=$COMP_CWORD; }\ncompopt() { :; }\nCOMP_WORDS=(caddy presets show em) COMP_CWORD=3 COMP_LINE='caddy presets show em' COMP_POINT=21\n" +
		"__start_caddy && echo \"${COMPREPLY[@]}\"\n"
	cmd := exec.Command(bash, "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(servertest.Caddy(t))+string(os.PathListSeparator)+os.Getenv("PATH"),
		"CADDY_ADMIN="+at.admin, "PRESETS_SERVER="+p.url, "HOME="+at.home, "TERM=dumb")
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	printed := strings.ReplaceAll(string(output), p.url, "http://127.0.0.1:8080")
	for _, v := range vary {
		printed = v.pattern.ReplaceAllString(printed, v.replacement)
	}
	outputs := strings.Split(printed, separator)[1:]
	if last := len(outputs) - 1; last == commands {
		if outputs[last] != "email-copywriter\n" {
			t.Errorf("bash completes %q, want the preset", outputs[last])
		}
	} else {
		t.Fatalf("got %d outputs of %d commands:\n%s", len(outputs), commands, printed)
	}
	got := consoleBlock.ReplaceAllStringFunc(text, func(block string) string {
		var with strings.Builder
		for line := range strings.Lines(block) {
			switch {
			case strings.HasPrefix(line, "$ "):
				with.WriteString(line + outputs[0])
				outputs = outputs[1:]
			case strings.HasPrefix(line, "```"):
				with.WriteString(line)
			}
		}
		return with.String()
	})
	switch {
	case *updatePages:
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != text:
		t.Errorf("the page differs, got\n%s", got)
	}
}

// stream is a gateway that answers with a stream.
func stream(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	if r.URL.Path == "/v1/messages" {
		fmt.Fprint(w, `data: {"type":"message_start","message":{"model":"anthropic/claude-haiku","usage":{"input_tokens":18,"output_tokens":1}}}`+"\n\n"+
			`data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"The Colosseum, the Pantheon and the Trevi Fountain."}}`+"\n\n"+
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":14}}`+"\n\n"+`data: {"type":"message_stop"}`+"\n\n")
		return
	}
	for _, word := range []string{"Good news: ", "our doors open ", "on Monday!"} {
		fmt.Fprintf(w, "data: {\"type\":\"response.output_text.delta\",\"delta\":%q}\n\n", word)
	}
	fmt.Fprint(w, `data: {"type":"response.completed","response":{"model":"openai/gpt-5-mini","usage":{"input_tokens":24,"output_tokens":9}}}`+"\n\n")
}
