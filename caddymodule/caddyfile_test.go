package caddymodule

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

func TestCaddyfileAdaptation(t *testing.T) {
	caddytest.Adaptations(t, "../testdata/caddyfile", *update)
}

// TestLiteralSecretsAreHashed checks that no adapted configuration and no error contains a
// literal secret.
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
		"webhook " + secret,
		"webhook https://x " + secret,
		"webhook https://user:" + secret + "@x {\nsecret {env.X}\n}",
		"webhook https://x {\nsecret " + secret + "\n}",
		"webhook https://x {\n" + secret + " {env.X}\n}",
		"webhook https://x {\nsecret {env.X} " + secret + "\n}",
		"webhook https://x {\nsecret {env.X} {\n" + secret + "\n}\n}",
	} {
		got := caddytest.Adapted(":80 {\npresets {\n" + directive + "\n}\n}")
		if strings.Contains(got, secret) {
			t.Errorf("%s\nis adapted to\n%s", strings.ReplaceAll(directive, secret, "SECRET"), got)
		}
	}
	if got := caddytest.Adapted(":80 {\npresets {\nmanagement_key " + secret + "\n}\n}"); !strings.Contains(got, "sha256:"+sha256Of(secret)) {
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
		if got := caddytest.Adapted(":80 {\npresets {\nmanagement_key " + secret + "\n" + body + "\n}\n}"); strings.Contains(got, secret) {
			t.Errorf("the secret is in %s", got)
		}
	})
}

// TestDocumentedCaddyfiles loads the Caddyfiles of the documents. The module etcd tests
// those with etcd.
func TestDocumentedCaddyfiles(t *testing.T) {
	tier.NoRace(t)
	documents := documentedCaddyfiles(t)
	if len(documents) < 8 {
		t.Errorf("found %d Caddyfiles, want at least 8", len(documents))
	}
	for name, text := range documents {
		if _, err := caddytest.Adapt(text); err != nil {
			t.Errorf("%s: %v in\n%s", name, err, text)
		}
	}
}

// TestDocumentedCaddyfilesLeakNoKey checks that no Caddyfile of the documents logs a key or
// passes one to the gateway.
func TestDocumentedCaddyfilesLeakNoKey(t *testing.T) {
	tier.Slow(t)
	caddytest.LeaksNoKey(t, documentedCaddyfiles(t), caddytest.Folder)
}

func documentedCaddyfiles(t *testing.T) map[string]string {
	t.Helper()
	t.Setenv("PRESETS_UPSTREAM", "127.0.0.1:1")
	return caddytest.DocumentedCaddyfiles(t, "..", false)
}

// TestDocumentedSyntax checks that docs/configuration.md and the comment of
// UnmarshalCaddyfile show every subdirective, with the same arguments. Only the document
// shows the options of Badger.
func TestDocumentedSyntax(t *testing.T) {
	var subdirectives []string
	for block, readers := range map[string]map[string]directive.Reader{
		"presets ": new(Handler).subdirectives(), "presets inference ": new(Inference).subdirectives(), "presets inference usage ": new(Usage).subdirectives(),
	} {
		for name := range readers {
			subdirectives = append(subdirectives, block+name)
		}
	}
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "\n```\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	_, inComment, _ := strings.Cut(commentOfSyntax(t), "\n\n")
	inComment, _, _ = strings.Cut(inComment, "\n\n")
	document, source := syntaxOf(block), syntaxOf(inComment)
	for _, path := range subdirectives {
		for name, syntax := range map[string]map[string]string{"docs/configuration.md": document, "the comment": source} {
			if _, ok := syntax[path]; !ok {
				t.Errorf("%s does not show %s", name, path)
			}
		}
	}
	for path, arguments := range document {
		if of, ok := source[path]; (!ok || of != arguments) && !strings.HasPrefix(path, "presets storage") {
			t.Errorf("docs/configuration.md shows %q for %s, and the comment of UnmarshalCaddyfile %q", arguments, path, of)
		}
	}
	if len(document) != len(source)+2 {
		t.Errorf("docs/configuration.md shows %d subdirectives, want the %d of the comment and 2 of Badger", len(document), len(source))
	}
}

// syntaxOf returns the arguments of each subdirective, by its name behind those of its blocks.
func syntaxOf(block string) map[string]string {
	syntax := make(map[string]string)
	var in []string
	for line := range strings.Lines(block) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "}":
			in = in[:len(in)-1]
		default:
			path := append(slices.Clip(in), words[0])
			syntax[strings.Join(path, " ")] = strings.Join(words[1:], " ")
			if words[len(words)-1] == "{" {
				in = path
			}
		}
	}
	return syntax
}

// commentOfSyntax returns the comment of UnmarshalCaddyfile.
func commentOfSyntax(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "caddyfile.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "UnmarshalCaddyfile" {
			return f.Doc.Text()
		}
	}
	t.Fatal("there is no UnmarshalCaddyfile")
	return ""
}
