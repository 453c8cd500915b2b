package documents

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFieldsOfWorkspaces checks that docs/workspaces.md tells of each field of the specification what it
// does, and names a test of that.
func TestFieldsOfWorkspaces(t *testing.T) {
	t.Chdir(root)
	page, err := os.ReadFile("docs/workspaces.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string) // the test of each field
	row := regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\| [^|]+ \\| `(Test[A-Za-z]+)` \\|$")
	for _, found := range row.FindAllStringSubmatch(string(page), -1) {
		for field := range strings.SplitSeq(found[1], ", ") {
			rows[strings.Trim(field, "`")] = found[2]
		}
	}
	code, err := os.ReadFile("domain/workspace.go")
	if err != nil {
		t.Fatal(err)
	}
	_, fields, _ := strings.Cut(string(code), "type Workspace struct {")
	fields, _, _ = strings.Cut(fields, "\n}")
	// Fields with an option are not of the specification, whose fields are always there.
	found := regexp.MustCompile("`json:\"([a-z_]+)\"`").FindAllStringSubmatch(fields, -1)
	if len(found) < 15 {
		t.Fatalf("got %d fields", len(found))
	}
	for _, field := range found {
		name := field[1]
		isMeta := name == "id" || strings.HasPrefix(name, "created_") || name == "updated_at"
		if _, ok := rows[name]; !ok && !isMeta {
			t.Errorf("%s is in no row", name)
		}
	}
	for name, test := range rows {
		if !strings.Contains(tests.String(), "func "+test+"(t *testing.T)") {
			t.Errorf("%s: got the test %q, want one that exists", name, test)
		}
	}
}
