package files

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	schemaComment   = "# yaml-language-server: $schema="
	presetHeader    = schemaComment + schemaBase + "preset.schema.json\n"
	workspaceHeader = schemaComment + schemaBase + "workspace.schema.json\n"
)

// Write writes set into the folder dir, which it makes if it is missing. It returns the
// paths of the files that it made or changed, below the folder, with slashes, sorted.
//
// The same Set gives the same files. A file that means the same already keeps its bytes.
// Otherwise comments, order and the form of values that stay are kept, while indentation and
// empty lines become those of a new file. A file, a workspace or a preset that set does not
// have stays, too. So do earlier versions, if the preset in set has none.
//
// A prompt with a line break or more than 100 characters goes to the file <slug>.md, unless that
// is there and not its own: then it is in the YAML file. A prompt that has another place already
// stays there, unless another value names its file, too.
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
	for _, one := range set.Workspaces {
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

func (w *writer) workspace(root *os.Root, one Workspace) {
	err := fileowner.MkdirAll(filepath.Join(root.Name(), one.Slug), 0o755)
	var below *os.Root
	if err == nil {
		below, err = root.OpenRoot(one.Slug)
	}
	if err != nil {
		w.mistake(one.Slug, folder{Root: root}.problem(one.Slug, err))
		return
	}
	defer below.Close()
	f := &workspaceWriter{writer: w, root: folder{Root: below}, slug: one.Slug, named: make(map[string]int)}
	f.countNamed()
	if one.Defaults != nil || one.Stored != nil {
		f.defaults(one)
	}
	for _, p := range one.Presets {
		f.preset(p)
	}
}

type workspaceWriter struct {
	*writer
	root folder
	slug string
	// named is how often the presets of the folder name each file by !file.
	named map[string]int
}

func (w *workspaceWriter) isThere(name string) bool {
	_, err := w.root.Lstat(name)
	return !errors.Is(err, os.ErrNotExist)
}

// countNamed reads the presets of the folder for the files that they name.
func (w *workspaceWriter) countNamed() {
	entries, err := fs.ReadDir(w.root.FS(), ".")
	if err != nil {
		w.mistake(w.slug, w.root.problem(".", err))
	}
	for _, e := range entries {
		if path.Ext(e.Name()) != extension {
			continue
		}
		scratch := &reader{schemas: w.schemas} // a mistake is reported if the file is written
		if d, ok := scratch.open(w.root, path.Join(w.slug, e.Name())); ok && d.root != nil {
			w.countBelow(d.root)
		}
	}
}

func (w *workspaceWriter) countBelow(n *yaml.Node) {
	if isFile(n) {
		w.named[w.real(n.Value)]++
	}
	for _, part := range n.Content {
		w.countBelow(part)
	}
}

// real returns the path of a file without links, in lower case, since some file systems do not see case.
func (w *workspaceWriter) real(name string) string {
	whole := filepath.Join(w.root.Name(), filepath.FromSlash(name))
	if real, err := filepath.EvalSymlinks(whole); err == nil {
		whole = real
	}
	return strings.ToLower(whole)
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
	if _, problem := boundedFile(text); problem != "" {
		return problem
	}
	scratch := &reader{schemas: w.schemas}
	d, ok := scratch.parse(from, path.Join(w.slug, name), text)
	if isSame := ok && read(d); !isSame {
		problem = inexpressible
	}
	if list := scratch.mistakes.list; len(list) > 0 {
		problem = list[0].Message
		if list[0].Path != "" {
			problem = list[0].Path + ": " + problem
		}
	}
	return problem
}

const inexpressible = "a file cannot express it"

// text returns the text of a file that is to have a value, in the form of the file d that is there
// already, nil for none. The file is written anew if that form does not say what is wanted.
func (w *workspaceWriter) text(name, header string, d *document, wanted *yaml.Node, from folder, is func(d *document) bool) (text []byte, problem string) {
	if d != nil && d.root != nil {
		if text, err := d.rewritten(wanted); err == nil && w.check(name, text, from, is) == "" {
			return text, ""
		}
	}
	text, err := encoded(wanted)
	if err != nil {
		return nil, inexpressible
	}
	text = append([]byte(header), text...)
	return text, w.check(name, text, from, is)
}

func (w *workspaceWriter) preset(p Preset) {
	name := p.Slug + extension
	var present Preset
	d, ok := w.present(name, func(d *document) { present, _ = d.preset(w.slug, p.Slug) })
	if !ok || d != nil && same(p, present) {
		return
	}
	var text []byte
	var problem string
	wanted, own, err := w.fileOf(p, present, d)
	if err != nil {
		problem = err.Error()
	} else {
		text, problem = w.text(name, presetHeader, d, wanted, folder{w.root.Root, own}, func(d *document) bool {
			got, _ := d.preset(w.slug, p.Slug)
			return same(p, got)
		})
	}
	if problem != "" {
		w.mistake(path.Join(w.slug, name), fmt.Sprintf("preset %s of workspace %s is not written: %s", p.Slug, w.slug, problem))
		return
	}
	// The prompt is first, so that the preset's file never names a missing one.
	if own.name != "" && !w.write(own.name, []byte(own.text+"\n")) {
		return
	}
	if d == nil || !bytes.Equal(text, d.text) { // otherwise only the prompt differs
		w.write(name, text)
	}
}

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
	text, problem := w.text(workspaceFile, workspaceHeader, d, jsonNode(jsontext.Value(wanted)), w.root, func(d *document) bool { return sameJSON(d.defaults(), wanted) })
	if problem != "" {
		refuse(problem)
		return
	}
	w.write(workspaceFile, text)
}

// over returns the members for a file that has present now. A value that means the same has the
// text of the file, and with Stored all members of the file stay.
func (one Workspace) over(present json.RawMessage) json.RawMessage {
	wanted := jsontext.Value(cmp.Or(string(one.Defaults), "{}"))
	for quoted, value := range rawjson.Pairs(jsontext.Value(present)) {
		name, _ := rawjson.Text(quoted)
		to := rawjson.Get(wanted, name)
		if to == nil && one.Stored != nil {
			to = jsontext.Value(cmp.Or(string(rawjson.Get(jsontext.Value(one.Stored), name)), "null"))
		}
		if to != nil && SameDefault(name, json.RawMessage(value), json.RawMessage(to)) {
			to = value
		}
		if to != nil {
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
