package files

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// promptUses counts how often the presets of a folder name files by !file. A file has one name there,
// whatever links lead to it. Letter case does not count, since some file systems do not see it.
type promptUses struct {
	dir string // without links
	// byPreset are the files that a preset names, and byFile how often each preset names one.
	byPreset map[string][]string
	byFile   map[string]map[string]int
}

func newPromptUses(dir string) *promptUses {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return &promptUses{dir, make(map[string][]string), make(map[string]map[string]int)}
}

// file returns the path of a file without links, in lower case. A missing one has no links.
func (u *promptUses) file(name string) string {
	whole := filepath.Join(u.dir, filepath.FromSlash(name))
	if real, err := filepath.EvalSymlinks(whole); err == nil {
		whole = real
	}
	return strings.ToLower(whole)
}

// set replaces what the file of a preset names.
func (u *promptUses) set(slug string, names []string) {
	for _, file := range u.byPreset[slug] {
		delete(u.byFile[file], slug)
	}
	u.byPreset[slug] = nil
	for _, name := range names {
		file := u.file(name)
		u.byPreset[slug] = append(u.byPreset[slug], file)
		if u.byFile[file] == nil {
			u.byFile[file] = make(map[string]int)
		}
		u.byFile[file][slug]++
	}
}

// isFree reports whether no preset names a file.
func (u *promptUses) isFree(name string) bool { return len(u.byFile[u.file(name)]) == 0 }

// isOwn reports whether only the file of a preset names a file, and only once.
func (u *promptUses) isOwn(name, slug string) bool {
	uses := u.byFile[u.file(name)]
	return len(uses) == 1 && uses[slug] == 1
}

// findUses reads the presets of the folder for the files that they name.
func (w *workspaceWriter) findUses() {
	w.uses = newPromptUses(w.root.Name())
	entries, err := fs.ReadDir(w.root.FS(), ".")
	if err != nil {
		w.mistake(w.slug, w.root.problem(".", err))
	}
	for _, e := range entries {
		if slug, ok := strings.CutSuffix(e.Name(), extension); ok {
			w.findUsesOf(slug)
		}
	}
}

// findUsesOf reads the file of a preset for the files that it names. Mistakes are reported if
// the file is written.
func (w *workspaceWriter) findUsesOf(slug string) {
	scratch := &reader{schemas: w.schemas}
	if d, ok := scratch.open(w.root, path.Join(w.slug, slug+extension)); ok && d.root != nil {
		w.uses.set(slug, namesBelow(d.root, nil))
	}
}

// namesBelow adds the files that n names, cleaned.
func namesBelow(n *yaml.Node, names []string) []string {
	if isFile(n) {
		if name, problem := includeName(n.Value); problem == "" {
			names = append(names, name)
		}
	}
	for _, part := range n.Content {
		names = namesBelow(part, names)
	}
	return names
}
