package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// schemaBase is where the schemas of the files are published.
const schemaBase = "https://raw.githubusercontent.com/caddy-presets/caddy-presets/main/schema/files/"

// The first lines of new files. Editors check a file by the schema that they name.
const (
	presetHeader    = "# yaml-language-server: $schema=" + schemaBase + "preset.schema.json\n"
	workspaceHeader = "# yaml-language-server: $schema=" + schemaBase + "workspace.schema.json\n"
)

// Write writes set into the folder dir, which it makes if it is missing. It returns the
// paths of the files that it made or changed, below the folder, with slashes, sorted.
//
// The same Set gives the same files. A file that means the same already keeps its bytes.
// Otherwise only what differs is changed: comments, order and the other values stay. A
// file, a workspace or a preset that set does not have stays, too. So do earlier versions,
// if the preset in set has none. A prompt with a line break or more than 100 characters
// goes to the file <slug>.md. It is <slug>-2.md if another preset names that one. A prompt
// that has another place already stays there, unless another preset names its file, too.
//
// Each file is replaced atomically, and never through a link out of the folder. A failure
// does not keep the other files from being written. The error is then Errors, such as for
// a text with the form of a secret. Nothing is written if two names of a workspace differ
// only in case, or if a slug is not valid.
//
// If root writes, new and changed files get the owner of their folder.
//
// Presets from a server should have Designated. It makes latest in a file mean the same
// as the number. Other programs should not change the folder meanwhile.
func Write(dir string, set *Set) (written []string, err error) {
	schemas, err := schema.Load()
	if err != nil {
		return nil, err
	}
	w := &writer{reader: &reader{schemas: schemas}}
	if w.checkNames(set); len(w.mistakes.list) > 0 {
		return nil, w.mistakes.err()
	}
	if err := fileowner.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("files: %w", fileowner.Explain(err, dir))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("files: %w", fileowner.Explain(err, dir))
	}
	defer root.Close()
	for _, one := range set.Workspaces {
		w.checkPresent(root, one)
	}
	if len(w.mistakes.list) > 0 {
		return nil, w.mistakes.err()
	}
	for _, one := range set.Workspaces {
		w.workspace(root, one)
	}
	slices.Sort(w.written)
	return slices.Compact(w.written), w.mistakes.err()
}

// writer writes files and collects what went wrong.
type writer struct {
	*reader
	written []string
}

// checkNames checks the slugs of set.
func (w *writer) checkNames(set *Set) {
	workspaces := make(map[string]bool)
	for _, one := range set.Workspaces {
		if problem := w.workspaceProblem(one.Slug); problem != "" {
			w.mistake(visible(one.Slug), problem)
		}
		if workspaces[one.Slug] {
			w.mistake(visible(one.Slug), "the workspace is there twice")
		}
		workspaces[one.Slug] = true
		seen := make(map[string]string)
		for _, p := range one.Presets {
			file := visible(one.Slug) + "/" + visible(p.Slug) + extension
			if domain.CheckPresetSlug(p.Slug) != nil {
				w.mistake(file, slugMessage)
			}
			folded := strings.ToLower(p.Slug)
			if other, ok := seen[folded]; ok {
				w.mistake(file, caseMessage(other))
			}
			seen[folded] = visible(p.Slug)
		}
	}
}

func caseMessage(other string) string {
	return "the name differs only in case from " + other + ", so some systems cannot have both files"
}

// checkPresent checks that no file of the folder has the name of a preset in another case.
func (w *writer) checkPresent(root *os.Root, one Workspace) {
	entries, _ := readNames(root, one.Slug) // a folder that cannot be read is an error later
	if len(entries) == 0 {
		return
	}
	wanted := make(map[string]string, len(one.Presets))
	for _, p := range one.Presets {
		wanted[strings.ToLower(p.Slug+extension)] = p.Slug + extension
	}
	for _, e := range entries {
		if name, ok := wanted[strings.ToLower(e.Name())]; ok && name != e.Name() {
			w.mistake(path.Join(one.Slug, name), caseMessage(e.Name()))
		}
	}
}

// workspace writes the folder of a workspace.
func (w *writer) workspace(root *os.Root, one Workspace) {
	err := root.Mkdir(one.Slug, 0o755)
	if err != nil && !errors.Is(err, os.ErrExist) {
		w.mistake(one.Slug, rootFolder{root}.problem(one.Slug, err))
		return
	}
	if err == nil {
		fileowner.Give(filepath.Join(root.Name(), one.Slug))
	}
	below, err := root.OpenRoot(one.Slug)
	if err != nil {
		w.mistake(one.Slug, rootFolder{root}.problem(one.Slug, err))
		return
	}
	defer below.Close()
	f := &workspaceWriter{writer: w, root: rootFolder{below}, slug: one.Slug}
	f.findUses()
	if one.Defaults != nil || one.Stored != nil {
		f.defaults(one)
	}
	for _, p := range one.Presets {
		f.preset(p)
	}
}

// workspaceWriter writes the files of a workspace.
type workspaceWriter struct {
	*writer
	root rootFolder
	slug string
	// named are the files that the file of a preset names by !file, by the preset's slug.
	named map[string][]string
	// uses are how often it names each, by the name and the slug.
	uses map[string]map[string]int
	// present are the named files that are there, by their state and name.
	present map[fileState]map[string]os.FileInfo
}

// hasText reports whether a file stands for a text.
func (w *workspaceWriter) hasText(name, text string) bool {
	present, problem := w.root.read(name)
	return problem == "" && string(withoutFinalBreak(present)) == text
}

// canWrite reports whether a preset's file may give a file that it names another text.
func (w *workspaceWriter) canWrite(slug string) func(name, text string) bool {
	return func(name, text string) bool {
		name, problem := includeName(name)
		return problem == "" && !strings.HasSuffix(text, "\r") && w.isOwn(name, slug)
	}
}

// newPrompt returns the name for a prompt's own file: <slug>.md. If another place names that
// file, the name gets a number.
func (w *workspaceWriter) newPrompt(slug string) func(text string) string {
	return func(text string) string {
		for n := 1; ; n++ {
			name := slug + ".md"
			if n > 1 {
				name = fmt.Sprintf("%s-%d.md", slug, n)
			}
			_, err := w.root.Lstat(name)
			isFree := errors.Is(err, os.ErrNotExist) || n == 1 // check refuses a file of nobody
			users, _ := w.users(name, slug)
			if w.hasText(name, text) || w.isOwn(name, slug) || isFree && users == 0 {
				return name
			}
		}
	}
}

// preset writes the file of a preset, and its prompt.
func (w *workspaceWriter) preset(p Preset) {
	file := path.Join(w.slug, p.Slug+extension)
	var before, text []byte
	var writes []prompt
	var problem string
	if _, err := w.root.Lstat(p.Slug + extension); errors.Is(err, os.ErrNotExist) {
		text, writes, problem = w.newPreset(p)
	} else {
		scratch := &reader{schemas: w.schemas}
		d, ok := scratch.open(w.root, file)
		var present Preset
		if ok {
			present, ok = d.preset(w.slug, p.Slug)
		}
		if !ok {
			for _, e := range scratch.mistakes.list {
				e.Message = "the present file has a mistake, so it stays as it is: " + e.Message
				w.mistakes.add(e)
			}
			return
		}
		if same(p, present) {
			return
		}
		before = d.text
		text, writes, problem = w.changed(p, d, present)
	}
	if problem != "" {
		w.mistake(file, fmt.Sprintf("preset %s of workspace %s is not written: %s", p.Slug, w.slug, problem))
		return
	}
	for _, one := range writes { // first, so that the preset's file never names a missing one
		name, _ := includeName(one.name)
		if w.hasText(name, one.text) {
			continue
		}
		if !w.write(name, []byte(one.text+"\n")) {
			return
		}
	}
	if before == nil || !bytes.Equal(text, before) { // otherwise only the prompt differs
		w.write(p.Slug+extension, text)
	}
	w.findUsesOf(p.Slug)
}

// newPreset returns the text of a file that is not there yet, and its prompt.
func (w *workspaceWriter) newPreset(p Preset) (text []byte, writes []prompt, problem string) {
	t := &target{preset: p, canWrite: w.canWrite(p.Slug), newPrompt: w.newPrompt(p.Slug)}
	root, err := t.file()
	if err != nil {
		return nil, nil, err.Error()
	}
	text = rendered(presetHeader, root)
	_, problem = w.check(p, text, t.writes)
	return text, t.writes, problem
}

// changed returns the text of the file of a preset that is there already, and its prompt.
func (w *workspaceWriter) changed(p Preset, d *document, present Preset) (text []byte, writes []prompt, problem string) {
	text, writes, problem = w.edited(p, d, present)
	if problem == "" || !hasAlias(d.root) {
		return text, writes, problem
	}
	// The values that aliases share may differ now.
	expanded, err := encode(expand(d.root))
	if err != nil {
		return nil, nil, problem
	}
	scratch := &reader{schemas: w.schemas}
	if d, ok := scratch.parse(w.root, d.file, expanded); ok {
		if present, ok := d.preset(w.slug, p.Slug); ok {
			return w.edited(p, d, present)
		}
	}
	return nil, nil, problem
}

// edited returns the text of a document after it became that of p.
func (w *workspaceWriter) edited(p Preset, d *document, present Preset) (text []byte, writes []prompt, problem string) {
	canWrite := w.canWrite(p.Slug)
	t := &target{preset: p, present: present, root: d.root, canWrite: canWrite, newPrompt: w.newPrompt(p.Slug)}
	wanted, err := t.file()
	if err != nil {
		return nil, nil, err.Error()
	}
	e := newEditor(d, canWrite)
	e.whole(wanted)
	text, ok := e.result()
	if !ok {
		return nil, nil, unchangeable
	}
	writes = slices.Concat(t.writes, e.writes)
	_, problem = w.check(p, text, writes)
	return text, writes, problem
}

// check reads a text as the file of p. It returns a problem if there are mistakes, or if it
// is another preset.
func (w *workspaceWriter) check(p Preset, text []byte, writes []prompt) (Preset, string) {
	over := overlay{w.root, make(map[string][]byte)}
	for _, one := range writes {
		name, problem := includeName(one.name)
		if problem != "" {
			return p, problem
		}
		if _, err := w.root.Lstat(name); !errors.Is(err, os.ErrNotExist) && !w.hasText(name, one.text) && !w.isOwn(name, p.Slug) {
			return p, "the file " + visible(name) + " is there already, and is not its prompt"
		}
		over.texts[name] = []byte(one.text + "\n")
	}
	scratch := &reader{schemas: w.schemas}
	file := path.Join(w.slug, p.Slug+extension)
	var got Preset
	if len(text) > MaxFileSize {
		return p, tooLarge
	}
	if d, ok := scratch.parse(over, file, text); ok {
		got, _ = d.preset(w.slug, p.Slug)
	}
	if list := scratch.mistakes.list; len(list) > 0 {
		problem := list[0].Message
		if list[0].Path != "" {
			problem = list[0].Path + ": " + problem
		}
		return p, problem
	}
	if !same(p, got) {
		return p, unchangeable
	}
	return got, ""
}

const unchangeable = "the present file has a form that cannot be changed: move it away, and write it anew"

// overlay is a folder with files that are not written yet.
type overlay struct {
	rootFolder
	texts map[string][]byte
}

func (o overlay) read(name string) ([]byte, string) {
	if text, ok := o.texts[name]; ok {
		if len(text) > MaxFileSize {
			return nil, tooLarge
		}
		return text, ""
	}
	return o.rootFolder.read(name)
}

// defaults writes the file of the workspace itself.
func (w *workspaceWriter) defaults(one Workspace) {
	file := path.Join(w.slug, workspaceFile)
	refuse := func(problem string) {
		w.mistake(file, fmt.Sprintf("the defaults of workspace %s are not written: %s", w.slug, problem))
	}
	wanted := one.Defaults
	for _, text := range []json.RawMessage{one.Defaults, one.Stored} {
		if err := schema.CheckDepth(text, schema.MaxDepth); err != nil {
			refuse("they " + err.Error())
			return
		}
	}
	var text []byte
	if _, err := w.root.Lstat(workspaceFile); errors.Is(err, os.ErrNotExist) {
		if wanted == nil {
			return
		}
		text = rendered(workspaceHeader, defaultsNode(wanted))
	} else {
		scratch := &reader{schemas: w.schemas}
		d, ok := scratch.open(w.root, file)
		var present json.RawMessage
		if ok {
			present = d.defaults()
		}
		if err := scratch.mistakes.err(); err != nil {
			for _, e := range scratch.mistakes.list {
				e.Message = "the present file has a mistake, so it stays as it is: " + e.Message
				w.mistakes.add(e)
			}
			return
		}
		if wanted, err = one.over(present); err != nil {
			w.mistake(file, fmt.Sprintf("the defaults of workspace %s cannot be read: %s", w.slug, err))
			return
		}
		if sameJSON(present, wanted) {
			return
		}
		node := defaultsNode(wanted)
		text = rendered(workspaceHeader, node)
		if d.root == nil {
			text = append(bytes.TrimRight(d.text, "\n"), rendered("\n", node)...)
		} else {
			e := newEditor(d, func(string, string) bool { return false })
			e.whole(node)
			if changed, ok := e.result(); ok {
				text = changed
			}
		}
	}
	scratch := &reader{schemas: w.schemas}
	var got []byte
	if d, ok := scratch.parse(w.root, file, text); ok {
		got = d.defaults()
	}
	problem := ""
	if list := scratch.mistakes.list; len(list) > 0 {
		problem = list[0].Message
	} else if !sameJSON(got, wanted) {
		problem = unchangeable
	}
	if problem != "" {
		refuse(problem)
		return
	}
	w.write(workspaceFile, text)
}

// over returns the members for a file that has present now. A value that means the same has the
// text of the file. With Stored, all members of the file stay.
func (one Workspace) over(present json.RawMessage) (json.RawMessage, error) {
	var wanted, stored, before []rawjson.Member
	for _, read := range []struct {
		text json.RawMessage
		into *[]rawjson.Member
	}{{one.Defaults, &wanted}, {one.Stored, &stored}, {present, &before}} {
		if read.text == nil {
			continue
		}
		var err error
		if *read.into, err = rawjson.Members(read.text); err != nil {
			return nil, err
		}
	}
	for _, m := range before {
		i := slices.IndexFunc(wanted, func(other rawjson.Member) bool { return other.Name == m.Name })
		switch {
		case i >= 0:
		case one.Stored == nil:
			continue
		default:
			i = len(wanted)
			wanted = append(wanted, rawjson.Member{Name: m.Name, Value: jsontext.Value("null")})
			if value := rawjson.Find(stored, m.Name); value != nil {
				wanted[i].Value = value
			}
		}
		if SameDefault(m.Name, json.RawMessage(m.Value), json.RawMessage(wanted[i].Value)) {
			wanted[i].Value = m.Value
		}
	}
	return json.RawMessage(rawjson.ObjectOf(wanted...)), nil
}

// write replaces a file in the folder of the workspace.
func (w *workspaceWriter) write(name string, text []byte) bool {
	if err := w.root.replace(name, text); err != nil {
		w.mistake(path.Join(w.slug, name), "cannot be written: "+w.root.causeOf(name, err).Error())
		return false
	}
	w.written = append(w.written, path.Join(w.slug, name))
	return true
}
