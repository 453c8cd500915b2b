package files_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
)

// TestAliases refuses files whose aliases stand for more than 1 MiB in all, wherever they are.
func TestAliases(t *testing.T) {
	const tooMuch = "the aliases of a file may stand for at most 1048576 bytes"
	list := "[" + strings.Repeat("1, ", 12_000) + "1]" // 24 KB of JSON
	text := strings.Repeat("x", 300<<10)
	for name, test := range map[string]struct{ text, want string }{
		"earlier versions": {
			"responses: {}\nearlier:\n- &a " + list + strings.Repeat("\n- *a", 60),
			"default/p.yaml:47:3: /earlier/44: " + tooMuch,
		},
		"splits": {
			"responses: {}\nlabels:\n  l: {split: [&a " + list + strings.Repeat(", *a", 60) + "]}\n",
			": /labels/l/split/44: " + tooMuch,
		},
		"several requests": {
			"earlier:\n- responses: {instructions: &a " + text + "}\n" + strings.Repeat("- responses: {instructions: *a}\n", 4) + "responses: {}\n",
			"default/p.yaml:6:29: /earlier/4/responses/instructions: " + tooMuch,
		},
	} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "default", "p.yaml"), []byte(test.text))
		if _, err := files.Read(dir); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %.300v, want %q alone", name, err, test.want)
		}
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "default", "p.yaml"), []byte("earlier:\n- responses: &a {instructions: "+text[:200<<10]+"}\n"+strings.Repeat("- responses: *a\n", 4)+"responses: *a\n"))
	if set, err := files.Read(dir); err != nil || len(set.Workspaces[0].Presets[0].Earlier) != 5 {
		t.Errorf("1000 KiB: got error %.300v", err)
	}
}
