package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

type answered struct {
	Input   string
	Answers []struct {
		Version, Preset, Text string
		Error                 *string
	}
}

// TestTryInputs sends saved inputs of each API to two versions. One model fails.
func TestTryInputs(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		switch {
		case strings.Contains(string(body), "broken"):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"error":{"message":"no such model"}}`)
		case strings.HasSuffix(r.URL.Path, "responses"):
			_, _ = io.WriteString(w, responsesStream)
		case strings.Contains(string(body), `"In Rome"`):
			_, _ = io.WriteString(w, chatStream)
		}
	})
	s.Manage("POST", "/v1/presets/p/chat/completions?template=true", `{"model":"m","messages":[{"role":"user","content":"In {{city}}"}]}`).Want(t, 200)
	if _, _, err := run("try", "p", "--inputs"); err == nil || !strings.Contains(err.Error(), "no saved inputs") {
		t.Errorf("without inputs: got %v", err)
	}
	s.Manage("POST", "/v1/presets/p/inputs", `{"name":"tour","dialect":"chat","variables":{"city":"Rome"}}`).Want(t, 201)
	s.Manage("POST", "/v1/presets/p/inputs", `{"name":"other","dialect":"responses","input":"hi","variables":{"city":"Rome"}}`).Want(t, 201)
	got := fmt.Sprint(gridOf(t, mustRun(t, "try", "p", "--inputs", "--json")))
	if want := `tour:  p@1 "Hello,\nworld"; other:  p@1 "Hello,\nworld"; `; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s.Manage("POST", "/v1/presets/p/chat/completions?designate=false", `{"model":"broken"}`).Want(t, 200)
	out, _, err := run("try", "p", "--inputs", "--version", "1", "--version", "2", "--json")
	if err == nil || !strings.Contains(err.Error(), "of 4 requests failed") {
		t.Errorf("got %v, want failures", err)
	}
	if got := gridOf(t, out); !strings.Contains(got, `1 p@1 "Hello,\nworld"`) || !strings.Contains(got, "2  error") {
		t.Errorf("got %s", got)
	}
	out, _, err = run("try", "p", "--inputs", "--version", "1")
	if err != nil || !strings.Contains(out, "INPUT") || !strings.Contains(out, "Hello, world") || !strings.Contains(out, "12+3") {
		t.Errorf("got %s, %v", out, err)
	}
	for args, want := range map[string]string{
		"try p --inputs --version 9":            "not found",
		"try p --version 1 --version 2":         "may be given once",
		"try p --inputs --input hi":             "inputs",
		"try absent --inputs":                   "not found",
		"try p --inputs --version no-such-name": "no label",
	} {
		if _, _, err := run(strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}

func gridOf(t *testing.T, out string) (text string) {
	t.Helper()
	for _, row := range data[[]answered](t, out) {
		text += row.Input + ": "
		for _, a := range row.Answers {
			text += fmt.Sprintf("%s %s ", a.Version, a.Preset)
			if a.Error != nil {
				text += "error, "
				continue
			}
			text += fmt.Sprintf("%q, ", a.Text)
		}
		text = strings.TrimSuffix(text, ", ") + "; "
	}
	return text
}
