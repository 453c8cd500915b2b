package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestModules checks that the program and the main module's go.mod and go.sum have no
// dependency of these tests.
func TestModules(t *testing.T) {
	t.Parallel()
	var ours struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal([]byte(run(t, ".", nil, "go", "mod", "edit", "-json")), &ours); err != nil {
		t.Fatal(err)
	}
	var clients []string
	for _, module := range ours.Require {
		if !module.Indirect && module.Path != mainModule {
			clients = append(clients, module.Path)
		}
	}
	for _, want := range []string{"github.com/openai/openai-go/v3", "github.com/anthropics/anthropic-sdk-go"} {
		if !slices.Contains(clients, want) {
			t.Errorf("go.mod does not require %s, but %q", want, clients)
		}
	}

	linked := strings.Fields(run(t, root, nil, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/caddy"))
	if !slices.Contains(linked, "github.com/caddyserver/caddy/v2") {
		t.Fatalf("go list -deps ./cmd/caddy: got %q", linked)
	}
	for _, client := range clients {
		if slices.Contains(linked, client) {
			t.Errorf("cmd/caddy links %s", client)
		}
		for _, name := range []string{"go.mod", "go.sum"} {
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				// Requirements of Caddy's name it, and then go.sum has sums of its go.mod alone.
				isNamed := client == "golang.org/x/tools" && strings.Contains(line, "/go.mod ")
				if strings.Contains(line, client+" ") && !isNamed {
					t.Errorf("%s of the main module has %s", name, line)
				}
			}
		}
	}
}
