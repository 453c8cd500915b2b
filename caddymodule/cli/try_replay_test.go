package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTryReplays sends lines of a log to another version.
func TestTryReplays(t *testing.T) {
	g := &gateway{status: 200, contentType: "text/event-stream", body: chatStream}
	s := start(t, g.ServeHTTP)
	s.presets()
	s.Manage("POST", "/v1/presets/c/chat/completions", `{"model":"acme/small","messages":[]}`).Want(s.T, 200)
	workspace := data[struct{ Data object }](t, s.Manage("GET", "/v1/presets/c", "").Body).Data["workspace_id"]
	line := func(preset, sent, more string) string {
		return fmt.Sprintf(`{"ts":1,"workspace":%q,"begun":"2026-11-28T10:00:00.000Z","request_id":"id-1","preset":%q,"dialect":"chat","model":"m-0",`+
			`"tokens":{"input_tokens":5,"output_tokens":6},"cost":"0.01","duration_ms":1500,"sent":%s,"request":{"model":"acme/large"},`+
			`"answer":[{"role":"assistant","parts":[{"type":"reasoning","content":"Hm"},{"type":"text","content":"A long answer of yesterday, which needs more than one line of the table."}],"finish_reason":"stop"}]%s}`, workspace, preset, sent, more)
	}
	own := `{"model":"own/m@preset/c","stream":true,"messages":[{"role":"user","content":"<Hi>"}],"session_id":"s"}`
	log := filepath.Join(t.TempDir(), "io.log")
	text := strings.Join([]string{
		"no line", line("other@1", own, ""), line("c@1", own, `,"cut":["sent"]`), line("c@1", own, `,"files":["sent","request"]`),
		line("c@1", own, `,"masked":["sent"]`), strings.Replace(line("c@1", own, ""), fmt.Sprint(workspace), "another", 1),
		line("c@1", own, ""), line("c@1", `{"model":"m","prompt":{"id":"c","version":1},"messages":[]}`, ""),
	}, "\n")
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errOut, err := run("try", "c", "--replay", log, "--version", "2")
	if err != nil {
		t.Fatal(err)
	}
	if want := `/v1/chat/completions {"model":"own/m","stream":true,"messages":[{"role":"user","content":"<Hi>"}]}`; g.got != want {
		t.Errorf("the gateway got %s, want %s", g.got, want)
	}
	for _, want := range []string{
		"2026-11-28T10:00:00.000Z id-1\n", "c@1; m-0; 5 tokens in, 6 out; cost 0.01; 1.50 s ", "| c@2; m-1; 12 tokens in, 3 out; ",
		"\nA long answer of yesterday, which needs more than one line | Hello,\nof the table." + strings.Repeat(" ", 45) + " | world\n", " | weather",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s, want %q in it", out, want)
		}
	}
	if want := "Line 1 is left out: it is no line of the log of content, or has no request\n" +
		"Line 3 is left out: the log does not have its whole request\nLine 4 is left out: the log does not have the images and files of its request\n" +
		"Line 5 is left out: the log does not have the keys in its request\n2 lines of other presets or workspaces are left out.\n"; errOut != want {
		t.Errorf("got %q, want %q", errOut, want)
	}
	all := data[[]object](t, mustRun(t, "try", "c", "--replay", log, "--limit", "5", "--json"))
	if len(all) != 2 || fmt.Sprint(all[0]["before"].(object)["usage"]) != "map[cost:0.01 input_tokens:5 output_tokens:6]" {
		t.Errorf("got %v", all)
	}
	// A gateway's error is the answer to a request, and does not end the others.
	g.status, g.contentType, g.body = 500, "application/json", `{"error":{"message":"down"}}`
	if out, _, err := run("try", "c", "--replay", log, "--limit", "2"); err == nil || strings.Count(out, "down") != 2 {
		t.Errorf("got %s and %v, want two errors", out, err)
	}
	if _, _, err := run("try", "r", "--replay", log); err == nil {
		t.Error("without a line of the preset: got no error")
	}
}
