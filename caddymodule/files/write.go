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
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
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
	for i, one := range set.Workspaces {
		if slices.ContainsFunc(set.Workspaces[:i], func(other Workspace) bool { return other.Slug == one.Slug }) {
			w.mistake(terminal.Escape(one.Slug), "the workspace is there twice")
		}
		w.checkNames(dir, one)
	}
	if len(w.mistakes.list) > 0 {
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

// checkNames checks the slugs of a workspace. No two of them, and none and a file that is there
// already, may differ in case alone.
func (w *writer) checkNames(dir string, one Workspace) {
	if problem := w.workspaceProblem(one.Slug); problem != "" {
		w.mistake(terminal.Escape(one.Slug), problem)
		return
	}
	seen := make(map[string]string)
	entries, _ := os.ReadDir(filepath.Join(dir, one.Slug)) // a folder that cannot be read is an error later
	for _, e := range entries {
		seen[strings.ToLower(e.Name())] = e.Name()
	}
	for _, p := range one.Presets {
		name := p.Slug + extension
		file := one.Slug + "/" + terminal.Escape(name)
		if domain.CheckPresetSlug(p.Slug) != nil {
			w.mistake(file, slugMessage)
		}
		folded := strings.ToLower(name)
		if other, ok := seen[folded]; ok && other != name {
			w.mistake(file, "the name differs only in case from "+terminal.Escape(other)+", so some systems cannot have both files")
		}
		seen[folded] = name
	}
}

// workspace writes the folder of a workspace.
func (w *writer) workspace(root *os.Root, one Workspace) {
	err := fileowner.MkdirAll(filepath.Join(root.Name(), one.Slug), 0o755)
	var below *os.Root
	if err == nil {
		below, err = root.OpenRoot(one.Slug)
	}
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
	uses *promptUses
}

// hasText reports whether a file stands for a text.
func (w *workspaceWriter) hasText(name, text string) bool {
	present, problem := w.root.read(name)
	return problem == "" && string(withoutFinalBreak(present)) == text
}

// canWrite reports whether a preset's file may give a file that it names another text.
func (w *workspaceWriter) canWrite(slug, name, text string) bool {
	name, problem := includeName(name)
	return problem == "" && !strings.HasSuffix(text, "\r") && w.uses.isOwn(name, slug)
}

// isThere reports whether a file or a link has a name.
func (w *workspaceWriter) isThere(name string) bool {
	_, err := w.root.Lstat(name)
	return !errors.Is(err, os.ErrNotExist)
}

// newPrompt returns the name for a prompt's own file: <slug>.md. If another place names that
// file, the name gets a number.
func (w *workspaceWriter) newPrompt(slug, text string) string {
	for n := 1; ; n++ {
		name := slug + ".md"
		if n > 1 {
			name = fmt.Sprintf("%s-%d.md", slug, n)
		}
		mayBeMade := n == 1 || !w.isThere(name) // check refuses a file of nobody
		if w.hasText(name, text) || w.uses.isOwn(name, slug) || mayBeMade && w.uses.isFree(name) {
			return name
		}
	}
}

// present reads a file that is there already, nil if there is none. It is not ok if it has mistakes,
// which are added.
func (w *workspaceWriter) present(name string, read func(d *document)) (d *document, ok bool) {
	if !w.isThere(name) {
		return nil, true
	}
	scratch := &reader{schemas: w.schemas}
	if d, ok = scratch.open(w.root, path.Join(w.slug, name)); ok {
		read(d)
	}
	for _, e := range scratch.mistakes.list {
		e.Message = "the present file has a mistake, so it stays as it is: " + e.Message
		w.mistakes.add(e)
	}
	return d, len(scratch.mistakes.list) == 0
}

// check reads a text as a file. It returns a problem if there are mistakes, or if read does not find
// what the file should say.
func (w *workspaceWriter) check(name string, text []byte, from folder, read func(d *document) (isSame bool)) (problem string) {
	if len(text) > MaxFileSize {
		return tooLarge
	}
	scratch := &reader{schemas: w.schemas}
	d, ok := scratch.parse(from, path.Join(w.slug, name), text)
	if isSame := ok && read(d); !isSame {
		problem = unchangeable
	}
	if list := scratch.mistakes.list; len(list) > 0 {
		problem = list[0].Message
		if list[0].Path != "" {
			problem = list[0].Path + ": " + problem
		}
	}
	return problem
}

const unchangeable = "the present file has a form that cannot be changed: move it away, and write it anew"

// preset writes the file of a preset, and its prompt.
func (w *workspaceWriter) preset(p Preset) {
	name := p.Slug + extension
	var present Preset
	d, ok := w.present(name, func(d *document) { present, _ = d.preset(w.slug, p.Slug) })
	if !ok || d != nil && same(p, present) {
		return
	}
	text, writes, problem := w.textOf(p, d, present, false)
	if problem != "" && d != nil && hasAlias(d.root) { // the values that aliases share may differ now
		text, writes, problem = w.textOf(p, d, present, true)
	}
	if problem != "" {
		w.mistake(path.Join(w.slug, name), fmt.Sprintf("preset %s of workspace %s is not written: %s", p.Slug, w.slug, problem))
		return
	}
	for _, one := range writes { // first, so that the preset's file never names a missing one
		file, _ := includeName(one.name)
		if !w.hasText(file, one.text) && !w.write(file, []byte(one.text+"\n")) {
			return
		}
	}
	if d == nil || !bytes.Equal(text, d.text) { // otherwise only the prompt differs
		w.write(name, text)
	}
	w.findUsesOf(p.Slug)
}

// textOf returns the text of the file of p, and its prompts. d is the file that is there already,
// nil for none, and present its preset.
func (w *workspaceWriter) textOf(p Preset, d *document, present Preset, dissolves bool) (text []byte, writes []prompt, problem string) {
	t := &target{workspaceWriter: w, preset: p, present: present}
	if d != nil {
		t.root = d.root
	}
	wanted, err := t.file()
	if err != nil {
		return nil, nil, err.Error()
	}
	text, writes, ok := newText(d, presetHeader, wanted, dissolves, func(name, text string) bool { return w.canWrite(p.Slug, name, text) })
	if !ok {
		return nil, nil, unchangeable
	}
	t.writes = append(t.writes, writes...)
	over := overlay{w.root, make(map[string][]byte)}
	for _, one := range t.writes {
		name, problem := includeName(one.name)
		if problem != "" {
			return nil, nil, problem
		}
		if w.isThere(name) && !w.hasText(name, one.text) && !w.uses.isOwn(name, p.Slug) {
			return nil, nil, "the file " + terminal.Escape(name) + " is there already, and is not its prompt"
		}
		over.texts[name] = []byte(one.text + "\n")
	}
	return text, t.writes, w.check(p.Slug+extension, text, over, func(d *document) bool {
		got, _ := d.preset(w.slug, p.Slug)
		return same(p, got)
	})
}

// newText returns the text of a file that is to have a value, and other files that change for it. d is
// the file that is there already, nil for none. It is not ok if the text cannot be changed.
func newText(d *document, header string, wanted *yaml.Node, dissolves bool, canWrite func(name, text string) bool) (text []byte, writes []prompt, ok bool) {
	switch {
	case d == nil:
		return []byte(header + rendered(wanted, 0) + "\n"), nil, true
	case d.root == nil:
		return fmt.Appendf(bytes.TrimRight(d.text, "\n"), "\n%s\n", rendered(wanted, 0)), nil, true
	}
	e := newEditor(d, canWrite)
	e.dissolves = dissolves
	e.whole(wanted)
	text, ok = e.result()
	return text, e.writes, ok
}

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
	refuse := func(problem string) {
		w.mistake(path.Join(w.slug, workspaceFile), fmt.Sprintf("the defaults of workspace %s are not written: %s", w.slug, problem))
	}
	for _, text := range []json.RawMessage{one.Defaults, one.Stored} {
		if err := schema.CheckDepth(text, schema.MaxDepth); err != nil {
			refuse("they " + err.Error())
			return
		}
	}
	var present json.RawMessage
	d, ok := w.present(workspaceFile, func(d *document) { present = d.defaults() })
	if !ok || d == nil && one.Defaults == nil {
		return
	}
	wanted := one.Defaults
	if d != nil {
		if wanted = one.over(present); sameJSON(present, wanted) {
			return
		}
	}
	text, _, _ := newText(d, workspaceHeader, jsonNode(jsontext.Value(wanted)), false, func(string, string) bool { return false })
	if problem := w.check(workspaceFile, text, w.root, func(d *document) bool { return sameJSON(d.defaults(), wanted) }); problem != "" {
		refuse(problem)
		return
	}
	w.write(workspaceFile, text)
}

// over returns the members for a file that has present now. A value that means the same has the
// text of the file. With Stored, all members of the file stay.
func (one Workspace) over(present json.RawMessage) json.RawMessage {
	wanted := jsontext.Value("{}")
	if one.Defaults != nil {
		wanted = jsontext.Value(one.Defaults)
	}
	for quoted, value := range rawjson.Pairs(jsontext.Value(present)) {
		name, _ := rawjson.Text(quoted)
		to := rawjson.Get(wanted, name)
		if to == nil && one.Stored != nil {
			if to = rawjson.Get(jsontext.Value(one.Stored), name); to == nil {
				to = jsontext.Value("null")
			}
		}
		switch {
		case to == nil: // the member goes
		case SameDefault(name, json.RawMessage(value), json.RawMessage(to)):
			wanted = rawjson.With(wanted, name, value)
		default:
			wanted = rawjson.With(wanted, name, to)
		}
	}
	return json.RawMessage(wanted)
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
