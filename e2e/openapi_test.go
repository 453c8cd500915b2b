package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// checkOpenAPI checks openapi.yaml, and exchanges against it.
func checkOpenAPI(t *testing.T, node string, exchanges ...string) {
	t.Helper()
	description, err := filepath.Abs(filepath.Join(root, "caddymodule", "openapi", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out, errs, err := try(t, "openapi", nil, node, append([]string{"check.mjs", description}, exchanges...)...)
	t.Logf("node openapi/check.mjs:\n%s%s", out, errs)
	if err != nil {
		t.Errorf("node openapi/check.mjs: %v", err)
	}
}

// TestOpenAPI checks that openapi.yaml is valid by its specification, and that
// the binary serves it.
func TestOpenAPI(t *testing.T) {
	checkOpenAPI(t, findNode(t))

	want, err := os.ReadFile(filepath.Join(root, "caddymodule", "openapi", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, newUpstream(t))
	response, err := http.Get("http://" + s.admin + "/presets/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
		t.Errorf("the admin endpoint answers %d with %d bytes, not openapi.yaml", response.StatusCode, len(got))
	}
}

// TestOpenAPIClients generates clients from openapi.yaml with two generators, compiles
// them, and uses them against the binary.
func TestOpenAPIClients(t *testing.T) {
	node := findNode(t)
	description, err := filepath.Abs(filepath.Join(root, "caddymodule", "openapi", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", run(t, "openapi", nil, node, "generate.mjs", description))
	s := startWith(t, "inference", "reverse_proxy "+newUpstream(t).address())
	for _, program := range []string{"hey.js", "fetch.js"} {
		t.Run(program, func(t *testing.T) {
			run(t, "openapi", nil, node, "generated/out/"+program, s.site, "http://"+s.admin, managementKey)
		})
	}
}
