package caddymodule

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is a package as Caddy's portal reads it: without types.
type source struct {
	folder     string
	types      map[string]*doc.Type
	registered []string // the arguments of RegisterModule
}

// TestRegistering checks the source that Caddy's portal reads, as docs/registering.md says. The
// portal reads how modules are registered, and the comments that become their documentation. It also
// reads the packages that these import.
func TestRegistering(t *testing.T) {
	var ids []string
	seen := make(map[string]bool)
	err := filepath.WalkDir(".", func(folder string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || entry.Name() == "testdata" {
			return err
		}
		s := parse(t, folder)
		for _, module := range s.types {
			id, constructs := moduleOf(module)
			switch isRegistered := slices.Contains(s.registered, module.Name); {
			case isRegistered != (id != ""), isRegistered && constructs != module.Name:
				t.Errorf("%s: the module %s is registered: %t, has the literal ID %q, and its constructor returns new(%s)", folder, module.Name, isRegistered, id, constructs)
			case isRegistered:
				ids = append(ids, id)
				s.checkDocumented(t, module.Name, seen)
			}
		}
		return nil
	})
	slices.Sort(ids)
	if want := []string{"admin.api.presets", "http.handlers.presets", "http.handlers.presets.storage.badger", "http.handlers.presets.storage.etcd"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("found modules %q, %v, want %q", ids, err, want)
	}
	if !seen[". Inference"] || !seen[". ConfiguredKey"] || !seen["etcd TLS"] {
		t.Errorf("the types of fields were not checked: %v", seen)
	}
}

func parse(t *testing.T, folder string) source {
	t.Helper()
	s := source{folder: folder, types: make(map[string]*doc.Type)}
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if function, ok := call.Fun.(*ast.SelectorExpr); ok && function.Sel.Name == "RegisterModule" {
					s.registered = append(s.registered, namedType(call.Args[0]))
				}
			}
			return true
		})
	}
	if files == nil {
		return s
	}
	read, err := doc.NewFromFiles(set, files, folder, doc.AllDecls|doc.PreserveAST)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range read.Types {
		s.types[each.Name] = each
	}
	return s
}

// namedType returns the type T of new(T) or T{}, the only two forms that the portal reads.
func namedType(argument ast.Expr) string {
	var name ast.Expr
	switch argument := argument.(type) {
	case *ast.CompositeLit:
		name = argument.Type
	case *ast.CallExpr:
		if called, ok := argument.Fun.(*ast.Ident); ok && called.Name == "new" && len(argument.Args) == 1 {
			name = argument.Args[0]
		}
	}
	if ident, ok := name.(*ast.Ident); ok {
		return ident.Name
	}
	return ""
}

// moduleOf returns the literal ID in a type's method CaddyModule, and the type that its constructor makes.
func moduleOf(of *doc.Type) (id, constructs string) {
	for _, method := range of.Methods {
		if method.Name != "CaddyModule" {
			continue
		}
		ast.Inspect(method.Decl.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if literal, ok := n.Value.(*ast.BasicLit); ok && n.Key.(*ast.Ident).Name == "ID" {
					id, _ = strconv.Unquote(literal.Value)
				}
			case *ast.ReturnStmt:
				if name := namedType(n.Results[0]); name != "" {
					constructs = name
				}
			}
			return true
		})
	}
	return id, constructs
}

// checkDocumented checks that a type and its fields have comments, which become the module's
// documentation. It also checks the types of this package that its fields have.
func (s source) checkDocumented(t *testing.T, name string, seen map[string]bool) {
	t.Helper()
	of := s.types[name]
	if of == nil || seen[s.folder+" "+name] {
		return
	}
	seen[s.folder+" "+name] = true
	if !strings.HasPrefix(of.Doc, name+" ") || !isSentence(of.Doc) {
		t.Errorf("%s: %s has the comment %q, want a sentence that begins with its name", s.folder, name, of.Doc)
	}
	fields, ok := of.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range fields.Fields.List {
		for _, fieldName := range field.Names {
			if !fieldName.IsExported() {
				continue
			}
			if field.Tag == nil || reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json") == "" {
				t.Errorf("%s: %s.%s has no name in JSON", s.folder, name, fieldName)
			}
			if text := field.Doc.Text(); !isSentence(text) && !strings.Contains(text, "Default: ") {
				t.Errorf("%s: %s.%s has the comment %q, want sentences", s.folder, name, fieldName, text)
			}
		}
		ast.Inspect(field.Type, func(n ast.Node) bool {
			if ident, ok := n.(*ast.Ident); ok && ident.IsExported() {
				s.checkDocumented(t, ident.Name, seen)
			}
			return true
		})
	}
}

// isSentence reports whether a comment ends as a sentence does.
func isSentence(text string) bool { return strings.HasSuffix(strings.TrimSpace(text), ".") }
