package e2e

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
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

// TestOpenAPI checks that the documents are valid by their specification.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	for _, name := range []string{apiDocument, adminDocument} {
		checkOpenAPI(t, node, name)
	}
}

// TestOpenAPIClients generates TypeScript clients from the documents with two generators,
// compiles them, and uses them against the binary.
func TestOpenAPIClients(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	node := findNode(t)
	t.Logf("%s", run(t, "openapi", nil, node, "generate.mjs", documentPath(t, apiDocument), documentPath(t, adminDocument)))
	s := startWith(t, "inference", "reverse_proxy "+newUpstream(t).address())
	for _, program := range []string{"hey.js", "fetch.js"} {
		t.Run(program, func(t *testing.T) {
			run(t, "openapi", nil, node, "generated/out/"+program, s.site, "http://"+s.admin, managementKey)
		})
	}
}

// TestOpenAPIPythonClients generates Python clients from the documents with two generators, and uses
// them against the binary.
func TestOpenAPIPythonClients(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	python := pythonWith(t, filepath.Join("openapi", "python", "requirements.txt"))
	scripts, err := filepath.Abs(filepath.Join("openapi", "python"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	generator := func(name string) string { return filepath.Join(filepath.Dir(python), servertest.Executable(name)) }
	for name, document := range map[string]string{"api": apiDocument, "admin": adminDocument} {
		path := documentPath(t, document)
		out := run(t, folder, nil, generator("openapi-python-client"), "generate", "--path", path, "--meta", "none",
			"--output-path", name+"_client", "--config", filepath.Join(scripts, "client.yaml"), "--fail-on-warning")
		t.Logf("%s: openapi-python-client:\n%s", document, out)
		run(t, folder, nil, generator("datamodel-codegen"), "--input", path, "--input-file-type", "openapi", "--output", name+"_models.py",
			"--output-model-type", "pydantic_v2.BaseModel", "--target-python-version", "3.11", "--formatters", "builtin")
		if numbered := numberedClass.FindAllString(read(t, filepath.Join(folder, name+"_models.py")), -1); numbered != nil {
			t.Errorf("%s: datamodel-code-generator numbers types that have no name: %q", document, numbered)
		}
	}
	s := startWith(t, "inference {\nusage\n}", "reverse_proxy "+newUpstream(t).address())
	for _, script := range []string{"check_client.py", "check_models.py"} {
		t.Run(script, func(t *testing.T) {
			run(t, folder, []string{"PYTHONPATH=" + folder, "PYTHONDONTWRITEBYTECODE=1"}, python, filepath.Join(scripts, script), s.site, "http://"+s.admin, managementKey)
		})
	}
}

// numberedClass matches a class that has the name of another one and a number.
var numberedClass = regexp.MustCompile(`(?m)^class \w*[a-z]\d+\(`)
