package caddymodule

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each file is a Caddyfile, a line of dashes, and the adapted JSON or the end
// of the error, in the manner of Caddy's own tests.
func TestCaddyfileAdaptation(t *testing.T) {
	files, err := filepath.Glob("../testdata/caddyfile/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no test files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, ok := strings.Cut(string(content), "\n----------\n")
			if !ok {
				t.Fatal("no line of dashes")
			}
			got := adapted(input)
			if *update {
				if err := os.WriteFile(file, []byte(input+"\n----------\n"+got+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != strings.TrimSpace(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func adapted(input string) string {
	config, err := adapt(input)
	if err != nil {
		return err.Error()
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, config, "", "\t"); err != nil {
		return err.Error()
	}
	return indented.String()
}

// No literal secret survives adaptation, in the result or in an error.
func TestLiteralSecretsAreHashed(t *testing.T) {
	const secret = "a-literal-secret-of-a-team"
	for _, directive := range []string{
		"management_key " + secret,
		"inference_key " + secret + " user team",
		"management_key " + secret + " user surplus",
		"inference_key user team x " + secret,
		"management_key x " + secret + " y " + secret,
		"management_key " + secret + "{}",
		"management_key {" + secret,
		"management_key sha256:" + secret,
		"management_key " + secret + " {\n}",
	} {
		got := adapted(":80 {\npresets {\n" + directive + "\n}\n}")
		if strings.Contains(got, secret) {
			t.Errorf("%s\nis adapted to\n%s", strings.ReplaceAll(directive, secret, "SECRET"), got)
		}
	}
	if got := adapted(":80 {\npresets {\nmanagement_key " + secret + "\n}\n}"); !strings.Contains(got, "sha256:"+sha256Of(secret)) {
		t.Errorf("got %s, want the hash", got)
	}
}

func FuzzCaddyfile(f *testing.F) {
	f.Add("management_key {env.X} u")
	f.Add("storage badger /x {\n}")
	f.Add("max_body_size 1MiB\nbase_path /x")
	f.Add("preset_creators any }\n{")
	f.Fuzz(func(t *testing.T, body string) {
		const secret = "a-literal-secret-of-a-team"
		if strings.Contains(body, secret) || strings.Contains(body, "import") || strings.Contains(body, "{$") {
			t.Skip()
		}
		if got := adapted(":80 {\npresets {\nmanagement_key " + secret + "\n" + body + "\n}\n}"); strings.Contains(got, secret) {
			t.Errorf("the secret is in %s", got)
		}
	})
}

// What the documents show can be used.
func TestDocumentedCaddyfiles(t *testing.T) {
	shown := regexp.MustCompile("(?s)```caddyfile\n(.*?)```")
	count := 0
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../README.md", "../BENCHMARKS.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shown.FindAllSubmatch(text, -1) {
			count++
			if _, err := adapt(string(block[1])); err != nil {
				t.Errorf("%s: %v in\n%s", file, err, block[1])
			}
		}
	}
	if count < 5 {
		t.Errorf("found %d Caddyfiles, want at least 5", count)
	}
}
