package convert_test

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/convert"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden converts samples of every source. The golden folders have the files and the
// report. The written files are read back, and have the same presets.
func TestGolden(t *testing.T) {
	for _, test := range []struct {
		name   string
		source convert.Source
		input  string
		o      convert.Options
	}{
		{"openai", convert.OpenAI, "openai", convert.Options{}},
		{"openai-all", convert.OpenAI, "openai", convert.Options{AllVersions: true}},
		{"langfuse", convert.Langfuse, "langfuse", convert.Options{Workspace: "team"}},
		{"langfuse-all", convert.Langfuse, "langfuse/export.json", convert.Options{AllVersions: true}},
		{"litellm", convert.LiteLLM, "litellm", convert.Options{}},
		{"litellm-all", convert.LiteLLM, "litellm", convert.Options{AllVersions: true}},
		{"litellm-models", convert.LiteLLMModels, "litellm-models/config.yaml", convert.Options{}},
		{"ollama", convert.Ollama, "ollama", convert.Options{}},
		{"openwebui", convert.OpenWebUI, "openwebui", convert.Options{}},
		{"bifrost", convert.Bifrost, "bifrost", convert.Options{}},
		{"bifrost-all", convert.Bifrost, "bifrost", convert.Options{AllVersions: true}},
		{"github", convert.GitHub, "github", convert.Options{}},
		{"portkey", convert.Portkey, "portkey", convert.Options{}},
		{"portkey-all", convert.Portkey, "portkey/prompts.json", convert.Options{AllVersions: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			set, report, err := convert.Convert(t.Context(), test.source, filepath.Join("testdata", test.input), test.o)
			if err != nil {
				t.Fatal(err)
			}
			if err := convert.Write(dir, set, report); err != nil {
				t.Fatal(err)
			}
			sameWhenRead(t, dir, set)
			compareGolden(t, filepath.Join("testdata", "golden", test.name), dir, report)
		})
	}
}

// sameWhenRead checks that the files of a folder mean the same as a set: nothing is written again.
func sameWhenRead(t *testing.T, dir string, set *files.Set) {
	t.Helper()
	if written, err := files.Write(dir, set); err != nil || len(written) > 0 {
		t.Fatalf("the files mean something else: %v is written again, %v", written, err)
	}
	if _, err := files.Read(dir); err != nil {
		t.Fatalf("reading what was written: %v", err)
	}
}

// compareGolden compares a folder and a report with golden files.
func compareGolden(t *testing.T, golden, dir string, report *convert.Report) {
	t.Helper()
	got := contents(t, dir)
	encoded, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	if err := report.Print(&printed); err != nil {
		t.Fatal(err)
	}
	got["report.json"], got["report.txt"] = string(encoded)+"\n", printed.String()
	if *update {
		if err := os.RemoveAll(golden); err != nil {
			t.Fatal(err)
		}
		for name, text := range got {
			name = filepath.Join(golden, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	want := contents(t, golden)
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is not written", name)
		}
	}
	for name, text := range got {
		if want[name] != text {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", name, text, want[name])
		}
	}
	for _, secret := range []string{"do-not-show-this", "internal.example", "openai-main", "Be brief", "You are a guide"} {
		if strings.Contains(got["report.json"]+got["report.txt"], secret) {
			t.Errorf("the report shows the value %q", secret)
		}
	}
}

// contents returns the texts of a folder's files, by their paths with slashes.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(os.DirFS(dir), name)
		texts[name] = strings.ReplaceAll(string(text), "\r\n", "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
