package files

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

const (
	extension     = ".yaml"
	workspaceFile = ".workspace.yaml"
)

// Read reads the folder dir. An empty folder is an empty Set.
//
// If there are mistakes in files, the error is Errors with the mistakes of all of them. Any
// other error is about the folder itself, such as one that is missing.
//
// Read takes nothing from outside of dir, whatever links are in it, and only regular files
// of at most MaxFileSize. Other programs should not change the folder meanwhile.
func Read(dir string) (*Set, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	schemas, err := schema.Load()
	if err != nil {
		return nil, err
	}
	r := &reader{schemas: schemas}
	set := new(Set)
	for _, e := range entries {
		if w, ok := r.entry(root, e.Name()); ok {
			set.Workspaces = append(set.Workspaces, w)
		}
	}
	if err := r.mistakes.err(); err != nil {
		return nil, err
	}
	return set, nil
}

type reader struct {
	schemas  *schema.Schemas
	mistakes mistakes
}

func (r *reader) mistake(file, message string) {
	r.mistakes.add(&Error{File: file, Message: message})
}

// entry reads an entry of the whole folder. It is ok if that is a workspace's folder.
func (r *reader) entry(root *os.Root, name string) (w Workspace, ok bool) {
	if strings.HasPrefix(name, ".") {
		return w, false
	}
	info, err := root.Stat(name)
	switch {
	case err != nil:
		r.mistake(name, folder{Root: root}.problem(name, err))
		return w, false
	case !info.IsDir():
		if isYAMLName(name) {
			r.mistake(name, "belongs into the folder of a workspace, such as "+domain.DefaultWorkspaceSlug+"/")
		}
		return w, false
	}
	below, err := root.OpenRoot(name)
	if err != nil {
		r.mistake(name, folder{Root: root}.problem(name, err))
		return w, false
	}
	defer below.Close()
	if !r.isWorkspace(below, name) {
		return w, false
	}
	if problem := r.workspaceProblem(name); problem != "" {
		r.mistake(name, problem)
		return w, false
	}
	return r.workspace(below, name), true
}

// isWorkspace reports whether a folder has a YAML file. One in a folder below it is a mistake, because
// there it describes nothing.
func (r *reader) isWorkspace(root *os.Root, slug string) (is bool) {
	err := fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			if name != "." && strings.HasPrefix(e.Name(), ".") {
				return fs.SkipDir
			}
		case !isYAMLName(name):
		case strings.Contains(name, "/"):
			r.mistake(path.Join(slug, name), "must be in the folder "+slug+" itself, because folders below it describe nothing")
			is = true
		default:
			is = true
		}
		return nil
	})
	if err != nil {
		r.mistake(slug, folder{Root: root}.problem(".", err))
	}
	return is
}

// workspaceProblem returns why a name is not the slug of a workspace, empty if it is one.
func (r *reader) workspaceProblem(name string) string {
	body := append([]byte(`{"slug":`), rawjson.Quote(name)...)
	_, err := r.schemas.UpdateWorkspace.Check(append(body, '}'))
	if refused, ok := err.(*schema.Error); ok { //nolint:errorlint // Check returns this type unwrapped
		return "the name of a folder is the slug of a workspace: it " + refused.Violations[0].Message
	}
	if uuid.Validate(name) == nil {
		return "the name of a folder is the slug of a workspace: it must not be a UUID"
	}
	return ""
}

// isYAMLName reports whether a name means a YAML file, in any spelling.
func isYAMLName(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == extension || ext == ".yml"
}

func (r *reader) workspace(root *os.Root, slug string) Workspace {
	w := Workspace{Slug: slug}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		r.mistake(slug, folder{Root: root}.problem(".", err))
		return w
	}
	for _, e := range entries {
		name := e.Name()
		file := path.Join(slug, name)
		switch {
		case name == workspaceFile:
			if d, ok := r.open(folder{Root: root}, file); ok {
				w.Defaults = d.defaults()
			}
		case strings.HasPrefix(name, "."):
			if isYAMLName(name) && strings.EqualFold(strings.TrimSuffix(name, path.Ext(name)), ".workspace") {
				r.mistake(file, "the name must be "+workspaceFile)
			}
		case !isYAMLName(name): // such as a prompt or a README.md
		case path.Ext(name) != extension:
			r.mistake(file, "the name of a YAML file must end in "+extension)
		default:
			if p, ok := r.preset(folder{Root: root}, slug, strings.TrimSuffix(name, extension)); ok {
				w.Presets = append(w.Presets, p)
			}
		}
	}
	return w
}

const slugMessage = "the name of a file is the slug of a preset: it " + domain.PresetSlugRule

func (r *reader) preset(root folder, workspace, slug string) (p Preset, ok bool) {
	file := path.Join(workspace, slug+extension)
	if domain.CheckPresetSlug(slug) != nil {
		r.mistake(file, slugMessage)
		return p, false
	}
	d, ok := r.open(root, file)
	if !ok {
		return p, false
	}
	return d.preset(workspace, slug)
}

// open reads and parses a YAML file in the folder of its workspace.
func (r *reader) open(root folder, file string) (*document, bool) {
	text, problem := root.read(path.Base(file))
	if problem != "" {
		r.mistake(file, problem)
		return nil, false
	}
	return r.parse(root, file, text)
}

// parse parses the text of a YAML file. It is not ok if it is not YAML.
func (r *reader) parse(root folder, file string, text []byte) (d *document, ok bool) {
	d = &document{reader: r, file: file, text: text, folder: root, texts: make(map[*yaml.Node]string)}
	d.findSecrets(file, text)
	page, p := parse(text)
	if p != nil {
		p.File = file
		r.mistakes.add(p)
		return nil, false
	}
	if page != nil {
		d.page, d.root = page, page.Content[0]
		d.findSecretsBelow(d.root)
	}
	return d, true
}

// checkBudgets adds the mistakes of budgets that the schema allows. A request may repeat what the API shows of them, and
// a file may not.
func (d *document) checkBudgets(text []byte) {
	for quoted, budget := range rawjson.Pairs(text) {
		interval, _ := rawjson.Text(quoted)
		for _, name := range []string{"id", "created_at", "updated_at"} {
			if rawjson.Get(budget, name) != nil {
				path := []string{"budgets", interval, name}
				d.mistake(keyOf(locate(d.root, path[:2]), name), path, "is not allowed: a budget has limit_usd alone")
			}
		}
	}
	var budgets domain.Budgets
	if d.failed || jsonv2.Unmarshal(text, &budgets) != nil {
		return
	}
	if issues := budgets.CheckAll("/budgets"); issues != nil {
		d.mistakesOf(d.root, nil, domain.InvalidIssues(issues...))
	}
}

func (d *document) defaults() json.RawMessage {
	if d.root == nil {
		return json.RawMessage("{}")
	}
	c, ok := d.toJSON(nil)
	if !ok {
		return nil
	}
	members, err := d.schemas.UpdateWorkspace.Check(c.json)
	if err != nil {
		d.mistakesOf(d.root, nil, err)
		members, _ = rawjson.Members(c.json)
	}
	for _, m := range members {
		switch {
		case m.Name == "slug":
			d.mistake(keyOf(d.root, m.Name), []string{m.Name}, "is not allowed: the name of the folder is the slug")
		case !d.schemas.UpdateWorkspace.Names(m.Name):
			d.mistake(keyOf(d.root, m.Name), []string{m.Name}, "is unknown: a workspace has no such default")
		case m.Name == "budgets":
			d.checkBudgets(m.Value)
		}
	}
	return c.json
}
