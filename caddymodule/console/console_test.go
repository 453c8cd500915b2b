package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// files are a small set of every type.
func files() fstest.MapFS {
	return fstest.MapFS{
		"index.html":     {Data: []byte(`<html data-base="{{base}}" data-api="{{api}}"><script src="{{assets}}main.js"></script>` + strings.Repeat(" ", 500))},
		"main.js":        {Data: []byte("import './views/list.js';\n" + strings.Repeat("long()\n", 100))},
		"views/list.js":  {Data: []byte("1;\n")},
		"style.css":      {Data: []byte("a { color: red }\n")},
		"icon.svg":       {Data: []byte("<svg xmlns='http://www.w3.org/2000/svg'/>\n")},
		"words.en.json":  {Data: []byte("{}\n")},
		"views/long.css": {Data: []byte(strings.Repeat("a { color: red }\n", 99))},
	}
}

func newTestPage(t *testing.T, base string, files fs.FS) *Page {
	t.Helper()
	p, err := newPage(base, "/v1", "{}", false, false, files)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Page) get(t *testing.T, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, response *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// asset returns the address of an asset.
func (p *Page) asset(t *testing.T, name string) string {
	t.Helper()
	for address := range p.assets {
		if strings.HasSuffix(address, "/"+name) {
			return address
		}
	}
	t.Fatalf("there is no asset %s", name)
	return ""
}

func TestShell(t *testing.T) {
	p := newTestPage(t, "/a&b/console", files())
	for _, method := range []string{"GET", "HEAD"} {
		answer := p.get(t, method, "/a&b/console")
		if answer.StatusCode != 200 || answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: got %d %v", method, answer.StatusCode, answer.Header)
		}
		if method == "HEAD" {
			continue
		}
		want := `<html data-base="/a&amp;b/console" data-api="/v1"><script src="` + strings.ReplaceAll(p.asset(t, "main.js"), "&", "&amp;") + `"></script>`
		if got := strings.TrimSpace(body(t, answer)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestAddresses checks that each address below the page's has the page, which leads back from a wrong
// one. A missing asset does not.
func TestAddresses(t *testing.T) {
	p := newTestPage(t, "/console", files())
	for path, want := range map[string]int{
		"": 200, "/": 200, "?x=1": 200, "/w/default/p/mail/compare/7..12": 200, "/w//default": 200, "/nothing": 200, "/assets": 200,
		"/w/default/p/%3Cscript%3E": 200, "/index.html": 200, "/assets/": 404, "/assets/0123456789abcdef/main.js": 404,
	} {
		got := p.get(t, "GET", "/console"+path)
		isPage := got.Header.Get("Content-Type") == "text/html; charset=utf-8" && strings.Contains(body(t, got), "main.js")
		if got.StatusCode != want || isPage != (want == 200) {
			t.Errorf("%q: got %d, want %d, and the page %t", path, got.StatusCode, want, isPage)
		}
	}
}

func TestAssets(t *testing.T) {
	p := newTestPage(t, "/console", files())
	types := map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
		".svg": "image/svg+xml; charset=utf-8", ".json": "application/json; charset=utf-8",
	}
	for name, file := range files() {
		if name == shell {
			continue
		}
		answer := p.get(t, "GET", p.asset(t, name))
		if got, want := answer.Header.Get("Content-Type"), types[path.Ext(name)]; got != want {
			t.Errorf("%s: got the type %q, want %q", name, got, want)
		}
		if got, want := answer.Header.Get("Cache-Control"), "public, max-age=31536000, immutable"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		if got := body(t, answer); answer.StatusCode != 200 || got != string(file.Data) {
			t.Errorf("%s: got %d %q, want %q", name, answer.StatusCode, got, file.Data)
		}
		if head := p.get(t, "HEAD", p.asset(t, name)); head.StatusCode != 200 || head.ContentLength != int64(len(file.Data)) || body(t, head) != "" {
			t.Errorf("HEAD %s: got %d with %d bytes", name, head.StatusCode, head.ContentLength)
		}
	}
	if len(p.assets) != len(files())-1 {
		t.Errorf("got %d assets, want %d", len(p.assets), len(files())-1)
	}
}

// TestComments checks that modules are served without their comments and indentation, and keep all else.
func TestComments(t *testing.T) {
	set := fstest.MapFS{
		"index.html": {Data: []byte("<head></head>")},
		"main.js": {Data: []byte("// A module.\n\nimport { a } from './a.js'\n\n/**\n * Does it.\n * @param {string} text ** a\n */\nexport function f(/** @type {string} */ text) {\n" +
			"\t// why\n\treturn /** @type {A} */ (text) + '// no comment' + a // after\n}\n")},
		"a.js":        {Data: []byte("export const a = 1\n")},
		"b.js":        {Data: []byte("export const b = 1\n")},
		"edit.js":     {Data: []byte("import { b } from './b.js'\n")},
		"versions.js": {Data: []byte("export const versions = 1\n")},
	}
	p := newTestPage(t, "/console", set)
	want := "\nimport { a } from './a.js'\n\nexport function f(text) {\nreturn (text) + '// no comment' + a\n}\n"
	if got := body(t, p.get(t, "GET", p.asset(t, "main.js"))); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for path, isEdit := range map[string]bool{"": false, "/w/default/p/mail/edit": true, "/w/default/p/mail": false} {
		page := body(t, p.get(t, "GET", "/console"+path))
		for name, want := range map[string]bool{"main.js": true, "a.js": true, "edit.js": isEdit, "b.js": isEdit, "versions.js": strings.HasSuffix(path, "/mail")} {
			if got := strings.Contains(page, `<link rel="modulepreload" href="`+p.asset(t, name)+`">`); got != want {
				t.Errorf("%s: %s is preloaded: got %t, want %t\n%s", path, name, got, want, page)
			}
		}
	}
}

// TestHashIsOfTheSet checks that any change gives every asset another address, and that the
// address of another set is a 404.
func TestHashIsOfTheSet(t *testing.T) {
	before := newTestPage(t, "/console", files())
	changed := files()
	changed["views/list.js"] = &fstest.MapFile{Data: []byte("2;\n")}
	after := newTestPage(t, "/console", changed)
	old := before.asset(t, "main.js")
	if old == after.asset(t, "main.js") {
		t.Error("main.js has the same address in both sets")
	}
	if old != newTestPage(t, "/console", files()).asset(t, "main.js") {
		t.Error("main.js has two addresses in one set")
	}
	answer := after.get(t, "GET", old)
	wantHeaders(t, old, answer, false)
	if answer.StatusCode != 404 || answer.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: got %d %v, want an uncached 404", old, answer.StatusCode, answer.Header)
	}
}

func TestConditionalRequests(t *testing.T) {
	p := newTestPage(t, "/console", files())
	address := p.asset(t, "main.js")
	plain := p.get(t, "GET", address).Header.Get("ETag")
	for condition, want := range map[string]int{
		plain:                    304,
		"W/" + plain:             304,
		`"other", ` + plain:      304,
		"*":                      304,
		`"other"`:                200,
		strings.Trim(plain, `"`): 200,
	} {
		answer := p.get(t, "GET", address, "If-None-Match: "+condition)
		wantHeaders(t, address, answer, true)
		if answer.StatusCode != want {
			t.Errorf("%s: got %d, want %d", condition, answer.StatusCode, want)
		}
		if want == 304 && (body(t, answer) != "" || answer.Header.Get("Cache-Control") == "" || answer.Header.Get("ETag") != plain) {
			t.Errorf("%s: got %v", condition, answer.Header)
		}
	}
}

func TestMethods(t *testing.T) {
	p := newTestPage(t, "/console", files())
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "get", "PROPFIND"} {
		for _, address := range []string{"/console", "/console/w/default", "/console/nothing", p.asset(t, "main.js")} {
			answer := p.get(t, method, address)
			wantHeaders(t, method+" "+address, answer, address == p.asset(t, "main.js"))
			if answer.StatusCode != 405 || answer.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: got %d, Allow: %q", method, address, answer.StatusCode, answer.Header.Get("Allow"))
			}
		}
	}
}

// wantHeaders checks the security headers of an answer. Assets have those that count for them.
func wantHeaders(t *testing.T, name string, answer *http.Response, isAsset bool) {
	t.Helper()
	for header, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		"X-Content-Type-Options":     "nosniff",
		"Referrer-Policy":            "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin",
	} {
		if isAsset && !isForAssets(header) {
			want = ""
		}
		if got := strings.Join(answer.Header.Values(header), "; and "); got != want {
			t.Errorf("%s: got %s %q, want %q", name, header, got, want)
		}
	}
	policy := answer.Header.Get("Permissions-Policy")
	if isAsset {
		if policy != "" {
			t.Errorf("%s: got a Permissions-Policy, which is for documents", name)
		}
		return
	}
	for _, feature := range []string{"camera", "clipboard-read", "geolocation", "microphone", "payment", "usb"} {
		if !strings.Contains(policy, feature+"=()") {
			t.Errorf("%s: the Permissions-Policy allows %s", name, feature)
		}
	}
	if !regexp.MustCompile(`^[a-z0-9-]+=\(\)(, [a-z0-9-]+=\(\))+$`).MatchString(policy) {
		t.Errorf("%s: got the Permissions-Policy %q", name, policy)
	}
}

func TestSecurityHeaders(t *testing.T) {
	p := newTestPage(t, "/console", files())
	for _, address := range []string{"/console", "/console/w/x/history", "/console/nothing", p.asset(t, "icon.svg"), "/console/assets/0123456789abcdef/icon.svg"} {
		for _, method := range []string{"GET", "HEAD"} {
			answer := p.get(t, method, address)
			wantHeaders(t, address, answer, address == p.asset(t, "icon.svg"))
			if answer.Header.Get("Set-Cookie") != "" || answer.Header.Get("Cache-Control") == "" {
				t.Errorf("%s: got %v", address, answer.Header)
			}
		}
	}
}

func TestOwns(t *testing.T) {
	p := newTestPage(t, "/console", files())
	for path, want := range map[string]bool{
		"/console": true, "/console/": true, "/console/w/x": true,
		"/consoles": false, "/": false, "/v1/console": false, "/Console": false, "console": false, "": false,
	} {
		if got := p.Owns(path); got != want {
			t.Errorf("%q: got %t, want %t", path, got, want)
		}
	}
	if (*Page)(nil).Owns("/console") {
		t.Error("a nil page owns a path")
	}
}

func TestBadSets(t *testing.T) {
	unknown := files()
	unknown["notes.txt"] = &fstest.MapFile{}
	for name, set := range map[string]fstest.MapFS{"without a shell": {}, "with an unknown type": unknown} {
		if _, err := newPage("/console", "/v1", "{}", false, false, set); err == nil {
			t.Errorf("a set %s is taken", name)
		}
	}
}

// largest is the total size of the assets. No view needs more than largestView, and mostCompressed with gzip.
const (
	largest        = 325_000
	largestView    = 260_000
	mostCompressed = 90_000
)

// forbidden are the texts that an asset may not have, by type.
var forbidden = map[string]map[string]*regexp.Regexp{
	".html": {
		"an inline handler":         regexp.MustCompile(`(?i)\son[a-z]+\s*=`),
		"an inline style":           regexp.MustCompile(`(?i)\sstyle\s*=|<style`),
		"an inline script":          regexp.MustCompile(`(?is)<script[^>]*>\s*[^<\s]`),
		"a script without a source": regexp.MustCompile(`(?i)<script(?:\s+(?:type="module"|async|defer))*\s*>`),
	},
	".js": {
		"text that becomes HTML":    regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|setHTML|DOMParser|document\s*\.\s*write|srcdoc`),
		"text that becomes code":    regexp.MustCompile(`\beval\b|\bnew\s+Function\b|\bset(?:Timeout|Interval)\s*\(\s*['"` + "`" + `]|javascript:`),
		"an inline handler":         regexp.MustCompile(`setAttribute\(\s*['"` + "`" + `]on`),
		"an inline style":           regexp.MustCompile(`setAttribute\(\s*['"` + "`" + `]style|cssText`),
		"a way around the policy":   regexp.MustCompile(`createPolicy|new\s+(?:Shared)?Worker\b|serviceWorker|importScripts`),
		"a cookie or a lasting key": regexp.MustCompile(`document\s*\.\s*cookie|indexedDB`),
	},
	".css": {
		"an import":   regexp.MustCompile(`@import`),
		"an old hack": regexp.MustCompile(`expression\s*\(|behavior\s*:|-moz-binding`),
	},
	".svg": {
		"a script":  regexp.MustCompile(`(?i)<script|\son[a-z]+\s*=|<foreignObject`),
		"a style":   regexp.MustCompile(`(?i)<style|\sstyle\s*=`),
		"an entity": regexp.MustCompile(`(?i)<!ENTITY`),
	},
}

// otherOrigin finds addresses of other sites. Namespaces are names, and nobody fetches
// them.
var otherOrigin = regexp.MustCompile(`(?i)(?:https?:|wss?:|["'(=]\s*)//[a-z0-9][^\s"'<>)]*`)

// TestAssetsKeepThePolicy checks the files that browsers get. The Content-Security-Policy
// forbids at run time the same as this test, in browsers that know it.
func TestAssetsKeepThePolicy(t *testing.T) {
	set, err := fs.Sub(embedded, "assets")
	if err != nil {
		t.Fatal(err)
	}
	contents, _, err := readAll(set)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		content := contents[name]
		total += len(content)
		rules := forbidden[path.Ext(name)]
		if rules == nil && path.Ext(name) != ".json" {
			t.Errorf("%s: nothing is known about such files", name)
		}
		for what, pattern := range rules {
			if found := pattern.Find(content); found != nil {
				t.Errorf("%s has %s: %q", name, what, found)
			}
		}
		for _, found := range otherOrigin.FindAll(content, -1) {
			if !bytes.Contains(found, []byte("//www.w3.org/")) {
				t.Errorf("%s names another origin: %s", name, found)
			}
		}
		for i, line := range strings.Split(string(content), "\n") {
			if ext := path.Ext(name); len(line) > 300 && (ext == ".js" || ext == ".css") {
				t.Errorf("%s:%d has %d characters: assets are written by hand, and not minified", name, i+1, len(line))
			}
		}
	}
	if total > largest {
		t.Errorf("the assets have %d bytes, want at most %d", total, largest)
	}
	t.Logf("%d assets have %d bytes", len(contents), total)
}

// TestNew checks the set that ships: each file is served, and the shell names assets of it.
func TestNew(t *testing.T) {
	p, err := New("/console", "/v1", "{}", true, true)
	if err != nil {
		t.Fatal(err)
	}
	text := body(t, p.get(t, "GET", "/console"))
	if strings.Contains(text, "{{") || !strings.Contains(text, `"/v1"`) || !strings.Contains(text, `"/console"`) {
		t.Errorf("a placeholder is not filled in\n%s", text)
	}
	named := regexp.MustCompile(`(?:src|href)="(/[^"]*)"`).FindAllStringSubmatch(text, -1)
	if len(named) == 0 {
		t.Error("the shell names no asset")
	}
	for _, match := range named {
		if answer := p.get(t, "GET", match[1]); answer.StatusCode != 200 {
			t.Errorf("%s: got %d", match[1], answer.StatusCode)
		}
	}
	for address := range p.assets {
		if path.Ext(address) != ".js" {
			continue
		}
		for _, match := range imports.FindAllStringSubmatch(body(t, p.get(t, "GET", address)), -1) {
			imported := match[1] + match[2]
			if !strings.HasPrefix(imported, ".") || p.get(t, "GET", path.Join(path.Dir(address), imported)).StatusCode != 200 {
				t.Errorf("%s imports %s, which is not there", address, imported)
			}
		}
	}
}

// TestViewsAreSmall checks what a browser loads of the page for a view, before and after compression.
func TestViewsAreSmall(t *testing.T) {
	p, err := New("/console", "/v1", "{}", true, true)
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`(?:src|href)="(/console/assets/[^"]*)"`)
	for name, page := range p.shells {
		whole, compressed := 0, 0
		add := func(content []byte) {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write(content)
			_ = w.Close()
			whole += len(content)
			compressed += packed.Len()
		}
		add(page.content)
		seen := make(map[string]bool)
		for _, match := range address.FindAllSubmatch(page.content, -1) {
			if asset := string(match[1]); !seen[asset] {
				seen[asset] = true
				add(p.assets[asset].content)
			}
		}
		t.Logf("the view %q: %d files, %d bytes, %d compressed", name, len(seen)+1, whole, compressed)
		if whole > largestView || compressed > mostCompressed {
			t.Errorf("the view %q has %d bytes, want at most %d, and %d compressed, want at most %d", name, whole, largestView, compressed, mostCompressed)
		}
	}
}

// imports finds the modules that a module imports.
var imports = regexp.MustCompile(`(?m)^(?:import|export)\s+(?:[^'";]*\sfrom\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)`)

// TestModulesImportInOneDirection checks that no module imports itself through others, so each can
// be read after those that it imports.
func TestModulesImportInOneDirection(t *testing.T) {
	set, err := fs.Sub(embedded, "assets")
	if err != nil {
		t.Fatal(err)
	}
	contents, _, err := readAll(set)
	if err != nil {
		t.Fatal(err)
	}
	graph := map[string][]string{}
	for name, content := range contents {
		if path.Ext(name) == ".js" {
			for _, match := range imports.FindAllStringSubmatch(string(content), -1) {
				graph[name] = append(graph[name], path.Join(path.Dir(name), match[1]+match[2]))
			}
		}
	}
	if found := circle(graph, "main.js", nil); found != nil {
		t.Errorf("modules import each other in a circle: %s", strings.Join(found, ", "))
	}
}

// circle returns a circle that the imports of a module lead to, or nil. The path leads to the module.
// It empties the graph as it goes, so each module is visited once.
func circle(graph map[string][]string, name string, path []string) []string {
	if i := slices.Index(path, name); i >= 0 {
		return append(slices.Clone(path[i:]), name)
	}
	for _, imported := range graph[name] {
		if found := circle(graph, imported, append(path, name)); found != nil {
			return found
		}
	}
	delete(graph, name)
	return nil
}
