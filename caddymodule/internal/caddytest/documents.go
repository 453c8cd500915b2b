package caddytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// Adapt returns the JSON of a Caddyfile. The adapter must be in the test's build.
func Adapt(caddyfile string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	return config, err
}

// Adapted returns the indented JSON of a Caddyfile, or the error.
func Adapted(caddyfile string) string {
	config, err := Adapt(caddyfile)
	if err != nil {
		return err.Error()
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, config, "", "\t"); err != nil {
		return err.Error()
	}
	return indented.String()
}

// Adaptations tests all *.caddyfiletest of a folder, or rewrites them. Each file has a
// Caddyfile, a line of dashes, and the adapted JSON or the end of the error. Caddy's own
// tests have the same format.
func Adaptations(t *testing.T, folder string, update bool) {
	files, err := filepath.Glob(filepath.Join(folder, "*.caddyfiletest"))
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
			got := Adapted(input)
			if update {
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

// manifestCaddyfile is where a manifest of Kubernetes has a Caddyfile, which is indented.
const manifestCaddyfile, manifestIndent = "\n  Caddyfile: |\n", "    "

// DocumentedCaddyfiles returns the Caddyfiles in the documents and in ops below a root, by
// their place. It returns those with the engine etcd, or all others.
func DocumentedCaddyfiles(t *testing.T, root string, etcd bool) map[string]string {
	t.Helper()
	found := make(map[string]string)
	add := func(name, text string) {
		if strings.Contains(text, "storage etcd") == etcd {
			found[name] = text
		}
	}
	for _, pattern := range []string{"Caddyfile.example", "docs/cluster/*Caddyfile", "ops/*/Caddyfile", "ops/kubernetes/*.yaml", "*.md", "docs/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, files, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			switch filepath.Ext(file) {
			case ".yaml":
				if _, block, ok := strings.Cut(string(content), manifestCaddyfile); ok {
					block, _, _ = strings.Cut(block, "\n---")
					add(filepath.ToSlash(name), strings.ReplaceAll("\n"+block, "\n"+manifestIndent, "\n")+"\n")
				}
				continue
			case ".md":
			default:
				add(filepath.ToSlash(name), string(content))
				continue
			}
			for i, block := range strings.Split(string(content), "```caddyfile\n")[1:] {
				block, _, _ = strings.Cut(block, "\n```")
				add(fmt.Sprintf("%s, block %d", filepath.ToSlash(name), i+1), block+"\n")
			}
		}
	}
	return found
}
