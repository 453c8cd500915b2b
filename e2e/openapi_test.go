package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// The OpenAPI documents, by the names of their files.
const (
	apiDocument   = "openapi.yaml"
	adminDocument = "openapi-admin.yaml"
)

// documentPath returns the path of an OpenAPI document.
func documentPath(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "caddymodule", "openapi", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// checkOpenAPI checks an OpenAPI document, and exchanges against it.
func checkOpenAPI(t *testing.T, node, name string, exchanges ...string) {
	t.Helper()
	out, errs, err := try(t, "openapi", nil, node, append([]string{"check.mjs", documentPath(t, name)}, exchanges...)...)
	t.Logf("node openapi/check.mjs %s:\n%s%s", name, out, errs)
	if err != nil {
		t.Errorf("node openapi/check.mjs %s: %v", name, err)
	}
}

// TestOpenAPI checks that the documents are valid by their specification, and that the
// binary serves them.
func TestOpenAPI(t *testing.T) {
	node := findNode(t)
	s := start(t, newUpstream(t))
	for _, name := range []string{apiDocument, adminDocument} {
		checkOpenAPI(t, node, name)
		want, err := os.ReadFile(documentPath(t, name))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.Get("http://" + s.admin + "/presets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		got, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
			t.Errorf("the admin endpoint answers %d with %d bytes, not %s", response.StatusCode, len(got), name)
		}
	}
}

// TestOpenAPIClients generates TypeScript clients from the documents with two generators,
// compiles them, and uses them against the binary.
func TestOpenAPIClients(t *testing.T) {
	node := findNode(t)
	t.Logf("%s", run(t, "openapi", nil, node, "generate.mjs", documentPath(t, apiDocument), documentPath(t, adminDocument)))
	s := startWith(t, "inference", "reverse_proxy "+newUpstream(t).address())
	for _, program := range []string{"hey.js", "fetch.js"} {
		t.Run(program, func(t *testing.T) {
			run(t, "openapi", nil, node, "generated/out/"+program, s.site, "http://"+s.admin, managementKey)
		})
	}
}
