package caddymodule

import (
	"go/ast"
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
	folder string
	files  []*ast.File
}

// TestRegistering checks the source that Caddy's portal reads, as docs/registering.md says. The
// portal reads how modules are registered, and the comments that become their documentation.
func TestRegistering(t *testing.T) {
	var ids []string
	seen := make(map[string]map[string]bool) // types, by their folder
	for _, folder := range []string{".", "admin", "badger", "etcd"} {
		s := parse(t, folder)
		seen[folder] = make(map[string]bool)
		for _, name := range s.registered(t) {
			ids = append(ids, s.checkModule(t, name))
			s.checkDocumented(t, name, seen[folder])
		}
	}
	slices.Sort(ids)
	if want := []string{"admin.api.presets", "http.handlers.presets", "http.handlers.presets.storage.badger", "http.handlers.presets.storage.etcd"}; !slices.Equal(ids, want) {
		t.Errorf("found modules %q, want %q", ids, want)
	}
	if !seen["."]["Inference"] || !seen["."]["ConfiguredKey"] || !seen["etcd"]["TLS"] {
		t.Errorf("the types of fields were not checked: %v", seen)
	}
	// The portal also reads the packages that these import.
	err := filepath.WalkDir(".", func(folder string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if entry.Name() == "testdata" {
			return fs.SkipDir
		}
		s := parse(t, folder)
		registered := s.registered(t)
		for _, name := range s.implementing() {
			if !slices.Contains(registered, name) {
				t.Errorf("%s: %s has a method CaddyModule with a literal as ID, and is not registered", folder, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func parse(t *testing.T, folder string) source {
	t.Helper()
	s := source{folder: folder}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, parsed)
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

// registered returns the types that the package registers as modules.
func (s source) registered(t *testing.T) (names []string) {
	t.Helper()
	for _, file := range s.files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if function, ok := call.Fun.(*ast.SelectorExpr); !ok || function.Sel.Name != "RegisterModule" {
				return true
			}
			name := namedType(call.Args[0])
			if name == "" {
				t.Errorf("%s: the argument of RegisterModule is neither new(T) nor T{}", s.folder)
			} else {
				names = append(names, name)
			}
			return true
		})
	}
	return names
}

// moduleMethod returns a declaration of a method CaddyModule, and nil for any other.
func moduleMethod(declaration ast.Decl) *ast.FuncDecl {
	if method, ok := declaration.(*ast.FuncDecl); ok && method.Name.Name == "CaddyModule" && method.Recv != nil {
		return method
	}
	return nil
}

// receiverName returns the type that a method belongs to.
func receiverName(method *ast.FuncDecl) string {
	of := method.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if ident, ok := of.(*ast.Ident); ok {
		return ident.Name
	}
	return ""
}

// literalID returns the ID in a method CaddyModule, "" if it is computed.
func literalID(method *ast.FuncDecl) (id string) {
	ast.Inspect(method.Body, func(n ast.Node) bool {
		if n, ok := n.(*ast.KeyValueExpr); ok && n.Key.(*ast.Ident).Name == "ID" {
			if literal, ok := n.Value.(*ast.BasicLit); ok {
				id, _ = strconv.Unquote(literal.Value)
			}
		}
		return true
	})
	return id
}

// implementing returns the types of the package whose method CaddyModule has a literal as ID.
// The portal skips other types.
func (s source) implementing() (names []string) {
	for _, file := range s.files {
		for _, declaration := range file.Decls {
			if method := moduleMethod(declaration); method != nil && literalID(method) != "" {
				names = append(names, receiverName(method))
			}
		}
	}
	return names
}

// checkModule checks the method CaddyModule of a type. The method returns a literal with the
// ID as a string, and a constructor that returns new(T). checkModule returns the ID.
func (s source) checkModule(t *testing.T, name string) (id string) {
	t.Helper()
	constructs := false
	for _, file := range s.files {
		for _, declaration := range file.Decls {
			method := moduleMethod(declaration)
			if method == nil || receiverName(method) != name {
				continue
			}
			id = literalID(method)
			ast.Inspect(method.Body, func(n ast.Node) bool {
				if n, ok := n.(*ast.ReturnStmt); ok {
					constructs = constructs || namedType(n.Results[0]) == name
				}
				return true
			})
		}
	}
	if id == "" || !constructs {
		t.Errorf("%s: the module %s has the literal ID %q, and its constructor returns new(%s): %t", s.folder, name, id, name, constructs)
	}
	return id
}

// checkDocumented checks that a type and its fields have comments. It also checks the types of
// this package that its fields have. The comments become the module's documentation.
func (s source) checkDocumented(t *testing.T, name string, seen map[string]bool) {
	t.Helper()
	if seen[name] {
		return
	}
	seen[name] = true
	for _, file := range s.files {
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE {
				continue
			}
			for _, spec := range group.Specs {
				spec := spec.(*ast.TypeSpec)
				if spec.Name.Name != name {
					continue
				}
				doc := group.Doc.Text() + spec.Doc.Text()
				if !strings.HasPrefix(doc, name+" ") || !isSentence(doc) {
					t.Errorf("%s: %s has the comment %q, want a sentence that begins with its name", s.folder, name, doc)
				}
				if fields, ok := spec.Type.(*ast.StructType); ok {
					s.checkFields(t, name, fields, seen)
				}
			}
		}
	}
}

func (s source) checkFields(t *testing.T, name string, fields *ast.StructType, seen map[string]bool) {
	t.Helper()
	for _, field := range fields.Fields.List {
		for _, fieldName := range field.Names {
			if !fieldName.IsExported() {
				continue
			}
			tag := ""
			if field.Tag != nil {
				tag, _ = strconv.Unquote(field.Tag.Value)
			}
			if member := reflect.StructTag(tag).Get("json"); member == "" {
				t.Errorf("%s: %s.%s has no name in JSON", s.folder, name, fieldName)
			}
			if doc := field.Doc.Text(); !isSentence(doc) && !strings.Contains(doc, "Default: ") {
				t.Errorf("%s: %s.%s has the comment %q, want sentences", s.folder, name, fieldName, doc)
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
func isSentence(doc string) bool {
	return strings.HasSuffix(strings.TrimSpace(doc), ".")
}
