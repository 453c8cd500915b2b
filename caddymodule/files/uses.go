package files

import (
	"os"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileState is equal for all names of a file, which it finds without a look at all files.
// Another file may have the same one.
type fileState struct{ size, modified int64 }

func stateOf(info os.FileInfo) fileState {
	return fileState{info.Size(), info.ModTime().UnixNano()}
}

// findUses reads the presets of the folder for the files that they name.
func (w *workspaceWriter) findUses() {
	w.named = make(map[string][]string)
	w.uses = make(map[string]map[string]int)
	w.present = make(map[fileState]map[string]os.FileInfo)
	entries, err := readNames(w.root.Root, ".")
	if err != nil {
		w.mistake(w.slug, w.root.problem(".", err))
		return
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
	d, ok := scratch.open(w.root, path.Join(w.slug, slug+extension))
	if !ok || d.root == nil {
		return
	}
	for _, name := range w.named[slug] {
		delete(w.uses[name], slug)
	}
	w.named[slug] = namesBelow(d.root, nil)
	for _, name := range w.named[slug] {
		w.addUse(name, slug)
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

// addUse counts that the file of a preset names a file once more.
func (w *workspaceWriter) addUse(name, slug string) {
	if w.uses[name] == nil {
		w.uses[name] = make(map[string]int)
	}
	w.uses[name][slug]++
	info, err := w.root.Stat(name)
	if err != nil {
		return // a missing file has no other names
	}
	state := stateOf(info)
	if w.present[state] == nil {
		w.present[state] = make(map[string]os.FileInfo)
	}
	w.present[state][name] = info
}

// users returns how many presets name a file, and how often the file of one preset does. Links
// to the file count. A preset counts once for each of the file's names.
func (w *workspaceWriter) users(name, slug string) (presets, times int) {
	presets, times = len(w.uses[name]), w.uses[name][slug]
	info, err := w.root.Stat(name)
	if err != nil {
		return presets, times
	}
	for other, one := range w.present[stateOf(info)] {
		if other != name && os.SameFile(one, info) {
			presets += len(w.uses[other])
			times += w.uses[other][slug]
		}
	}
	return presets, times
}

// isOwn reports whether only the file of a preset names a file, and only once.
func (w *workspaceWriter) isOwn(name, slug string) bool {
	presets, times := w.users(name, slug)
	return presets == 1 && times == 1
}
