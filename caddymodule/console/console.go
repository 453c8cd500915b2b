// Package console serves a page for browsers, which lists, compares, tries and changes
// presets through the public API.
//
// The files below assets/ are what browsers get: HTML, ES modules and CSS as written, without
// comments and indentation. No step builds them.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed assets
var embedded embed.FS

// shell is the one HTML file. All addresses of the page are answered with it.
const shell = "index.html"

// mediaTypes are the types of files by their extension. The operating system's own table
// would differ between machines.
var mediaTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json; charset=utf-8",
	".svg":  "image/svg+xml; charset=utf-8",
}

// Page serves the console. It is safe for concurrent use.
type Page struct {
	path   string          // of the page, without a slash at the end
	shells map[string]file // with their placeholders filled, by the view that they load
	assets map[string]file // by their whole paths
}

// New returns the page at a path, which asks the API at another path. Both paths are
// without a slash at the end. settings is a JSON object with the names of the settings that
// the API knows, for each route that makes a version, with spaces between. hasKeys is whether the
// API has keys. isAlone is whether no page of others runs at the console's origin. Only then do tabs
// give each other the key, because every page of the origin could ask for it.
func New(path, api, settings string, hasKeys, isAlone bool) (*Page, error) {
	files, err := fs.Sub(embedded, "assets")
	if err != nil {
		return nil, err
	}
	return newPage(path, api, settings, hasKeys, isAlone, files)
}

func newPage(base, api, settings string, hasKeys, isAlone bool, files fs.FS) (*Page, error) {
	contents, hash, err := readAll(files)
	if err != nil {
		return nil, err
	}
	folder := base + "/assets/" + hash + "/"
	p := &Page{path: base, assets: make(map[string]file), shells: make(map[string]file)}
	page, hasPage := contents[shell]
	if !hasPage {
		return nil, fmt.Errorf("the file %s is missing", shell)
	}
	delete(contents, shell)
	page = fill(page, map[string]string{"assets": folder, "base": base, "api": api, "settings": settings, "keys": strconv.FormatBool(hasKeys), "tabs": strconv.FormatBool(isAlone)})
	for name, view := range views {
		if p.shells[name], err = newFile(shell, preload(page, folder, contents, view)); err != nil {
			return nil, err
		}
	}
	for name, content := range contents {
		f, err := newFile(name, content)
		if err != nil {
			return nil, err
		}
		p.assets[folder+name] = f
	}
	return p, nil
}

// comments finds the comments that have a line, or more, of their own, the types within a line, and what is said
// at a line's end, which has no quote that could close a text. They are a third of the source, and browsers do
// not need them.
var comments = regexp.MustCompile("(?m)^[\\t ]*(?:/\\*(?:[^*]|\\*+[^*/])*\\*+/[\\t ]*|//.*)\n|/\\*\\*(?:[^*]|\\*+[^*/])*\\*+/ ?| // [^'\"`\\n]*$")

// indentation finds the tabs that only readers of the source need. No text of a module goes on in a line
// that begins with a tab: ESLint forbids it.
var indentation = regexp.MustCompile(`(?m)^\t+`)

// views are the modules of the addresses by their last part. Other addresses begin with the list of presets.
var views = map[string]string{
	"": "presets", "budgets": "keys", "edit": "edit", "history": "history", "keys": "keys", "labels": "labels", "state": "state", "usage": "usage", "use": "use",
	"versions": "versions", "workspaces": "workspaces",
}

// shellOf returns the page whose modules an address needs first. That of a preset, of a version and of a
// comparison ends with a name or numbers.
func (p *Page) shellOf(address string) file {
	name := path.Base(address)
	switch path.Base(path.Dir(address)) {
	case "p", "versions", "compare":
		name = "versions"
	}
	if page, ok := p.shells[name]; ok {
		return page
	}
	return p.shells[""]
}

// imported finds the modules that a module imports when it is loaded.
var imported = regexp.MustCompile(`(?m)^import .*?'\./([^']+)'`)

// preload adds links to the shell for the modules of a view and what they import, so that browsers ask for
// all of them at once, and do not read one to find the next.
func preload(content []byte, folder string, contents map[string][]byte, view string) []byte {
	var links strings.Builder
	seen := make(map[string]bool)
	var add func(name string)
	add = func(name string) {
		if seen[name] || contents[name] == nil {
			return
		}
		seen[name] = true
		fmt.Fprintf(&links, "\t<link rel=\"modulepreload\" href=\"%s\">\n", html.EscapeString(folder+name))
		for _, found := range imported.FindAllSubmatch(contents[name], -1) {
			add(string(found[1]))
		}
	}
	add("main.js")
	add(view + ".js")
	return bytes.Replace(content, []byte("</head>"), []byte(links.String()+"</head>"), 1)
}

// readAll returns the contents of all files, and a hash of the whole set. So a module
// that imports another by a relative address always gets the one of its own set.
func readAll(files fs.FS) (contents map[string][]byte, hash string, err error) {
	contents = make(map[string][]byte)
	sum := sha256.New()
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		switch path.Ext(name) {
		case ".js", ".css":
			content = indentation.ReplaceAll(comments.ReplaceAll(content, nil), nil)
		}
		contents[name] = content
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
		return nil
	})
	return contents, hex.EncodeToString(sum.Sum(nil)[:8]), err
}

// fill replaces each {{name}} of an HTML text by a value.
func fill(text []byte, values map[string]string) []byte {
	for name, value := range values {
		text = bytes.ReplaceAll(text, []byte("{{"+name+"}}"), []byte(html.EscapeString(value)))
	}
	return text
}

// file is one file as it is sent. A site with encode compresses it.
type file struct {
	mediaType, tag string
	content        []byte
}

func newFile(name string, content []byte) (file, error) {
	mediaType, ok := mediaTypes[path.Ext(name)]
	if !ok {
		return file{}, fmt.Errorf("the file %s has an unknown type", name)
	}
	sum := sha256.Sum256(content)
	return file{mediaType, `"` + hex.EncodeToString(sum[:8]) + `"`, content}, nil
}

// Owns reports whether a normalized path belongs to the page. A nil page owns none.
func (p *Page) Owns(normalized string) bool {
	if p == nil {
		return false
	}
	below, ok := strings.CutPrefix(normalized, p.path)
	return ok && (below == "" || below[0] == '/')
}

// ServeHTTP answers a request for the page, its assets, and every other path below the
// page's, which shows itself whether an address has a view. All answers have the same security headers,
// but the assets, which are read by the page alone, only those that count for them.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asset, isAsset := p.assets[r.URL.Path]
	for name, value := range securityHeaders {
		if !isAsset || isForAssets(name) {
			w.Header()[name] = []string{value}
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
	case isAsset:
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		asset.send(w, r)
	case strings.HasPrefix(r.URL.Path, p.path+"/assets/"):
		http.Error(w, http.StatusText(http.StatusNotFound), http.StatusNotFound)
	default:
		p.shellOf(r.URL.Path).send(w, r)
	}
}

func (f file) send(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", f.mediaType)
	w.Header().Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}
