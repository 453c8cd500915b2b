package convert

import (
	"bytes"
	"cmp"
	"errors"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/domain"
)

// readLiteLLM reads .prompt files, JSON as LiteLLM's proxy has it, or a live proxy.
func readLiteLLM(c *conversion) ([]*prompt, error) {
	r := litellm{conversion: c}
	if c.isLive() {
		err := r.fetch()
		return r.found.all, err
	}
	documents, err := c.documents(".prompt", ".json")
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		r.document(d)
	}
	return r.found.all, nil
}

// litellm collects the prompts of LiteLLM.
type litellm struct {
	*conversion
	found prompts
}

// versioned matches the id of a version: <id>.v2.
var versioned = regexp.MustCompile(`^(.+)\.v([0-9]{1,9})$`)

// splitVersion returns the id of a prompt and the number of its version, 0 for none.
func splitVersion(name string) (id string, number int) {
	if parts := versioned.FindStringSubmatch(name); parts != nil {
		if number, _ = strconv.Atoi(parts[2]); number > 0 {
			return parts[1], number
		}
	}
	return name, 0
}

// document reads a file of the input.
func (r *litellm) document(d document) {
	extension := strings.ToLower(filepath.Ext(d.name))
	isJSON := extension == ".json" || extension != ".prompt" && bytes.HasPrefix(bytes.TrimLeft(d.text, space), []byte{'{'})
	name := strings.TrimSuffix(d.name, filepath.Ext(d.name))
	if !isJSON && !utf8.Valid(d.text) {
		r.unreadable(d.name, "is not UTF-8")
		return
	}
	if !isJSON && extension != ".prompt" && !isPromptText(extension, string(d.text)) {
		r.unreadable(d.name, "is no prompt: a .prompt file has its settings between lines of three hyphens, or lines that begin with User: or System:. "+
			"If it is the proxy's configuration, convert the folder of its prompts, or give the proxy's address")
		return
	}
	if !isJSON {
		if name == "" {
			name = noSlug
		}
		id, number := splitVersion(name)
		v := &version{number: number, place: node{file: d.name}}
		v.isProduction = number == 0 // LiteLLM takes this file for a request without a version
		r.add(id, v)
		v.readPromptFile(node{file: d.name}, string(d.text))
		return
	}
	root, err := parse(d.name, "", d.text)
	if err != nil {
		r.unreadable(d.name, err.Error())
		return
	}
	switch {
	case root.get("prompts").kind() == '[':
		for spec := range root.get("prompts").items() {
			if !r.take() {
				break
			}
			r.spec(spec, nil)
		}
	case root.get("prompt_id").exists():
		r.spec(root, nil)
	case root.kind() == '{':
		r.jsonForm(name, root)
	default:
		r.refuse(root, "must be the answer of /prompts/list, or a prompt as JSON")
	}
}

// firstSetting matches a text whose first line, but for comments, is a setting in YAML.
var firstSetting = regexp.MustCompile(`^(?:[ \t]*(?:#[^\n]*)?\n)*[\w-]+:(?:\s|$)`)

// isPromptText reports whether a text that is in no .prompt file may be a prompt. A YAML file is
// configuration, and so is a text that begins with a setting, and has no mark of a prompt.
func isPromptText(extension, text string) bool {
	if extension == ".yaml" || extension == ".yml" {
		return false
	}
	_, body, hasFront := cutFrontMatter(withoutReturns(text))
	return hasFront || !firstSetting.MatchString(body) || slices.ContainsFunc(strings.Split(body, "\n"), func(line string) bool {
		_, _, ok := cutRole(strings.TrimSpace(line))
		return ok
	})
}

// add adds a version to a prompt.
func (r *litellm) add(id string, v *version) {
	v.dialect, v.syntax = domain.Chat, jinja
	p := r.found.of(id)
	p.oneUnnumbered = true
	p.versions = append(p.versions, v)
}

// jsonForm reads {content, metadata}, or such objects by the ids of their prompts.
func (r *litellm) jsonForm(id string, form node) {
	if form.get("content").exists() {
		v := &version{place: form}
		r.add(id, v)
		v.readJSONForm(form)
		return
	}
	for name, value := range form.members() {
		if !r.take() {
			break
		}
		if !value.get("content").exists() {
			r.refuse(value, "must be a prompt, with content and metadata")
			continue
		}
		id, number := splitVersion(name)
		v := &version{number: number, isProduction: number == 0, place: value}
		r.add(id, v)
		v.readJSONForm(value)
	}
}

func (v *version) readJSONForm(form node) {
	content, ok := form.get("content").text()
	if !ok {
		v.refuse(form.at("content"), "must be text")
		return
	}
	v.readMetadata(form.get("metadata"))
	v.readRoles(form.get("content"), content)
}

// specMembers are the members of a PromptSpec that are read, or that are of LiteLLM alone.
var specMembers = map[string]bool{
	"prompt_id": true, "litellm_params": true, "prompt_info": true, "created_at": true, "updated_at": true, "version": true, "created_by": true,
}

// specParameters are the members of litellm_params that are read.
var specParameters = map[string]bool{
	"prompt_id": true, "prompt_integration": true, "dotprompt_content": true, "prompt_data": true, "prompt_directory": true,
}

// spec reads a PromptSpec. raw is what the proxy shows of its content apart, or nil. The proxy
// looks for the id of a request among the outer ids, so those tell prompts apart.
func (r *litellm) spec(spec node, raw *node) {
	parameters := spec.get("litellm_params")
	id, number := splitVersion(spec.textOf("prompt_id"))
	inner, _ := splitVersion(parameters.textOf("prompt_id"))
	id = cmp.Or(id, inner)
	if n := spec.get("version").number(); n > 0 {
		number = n
	}
	if id == "" {
		r.refuse(spec.at("prompt_id"), "must be the id of a prompt")
		return
	}
	v := &version{number: number, place: spec}
	r.add(id, v)
	environment := spec.get("environment")
	if !environment.exists() {
		environment = spec.get("prompt_info").get("environment")
	}
	if text, _ := environment.text(); text != "" {
		v.isProduction = text == production
		v.leave(environment, "has no counterpart: a preset has no environments")
	}
	for name, value := range parameters.members() {
		if !specParameters[name] && value.exists() {
			v.leave(value, "is a setting of the proxy, and is not taken")
		}
	}
	for name, value := range spec.members() {
		if !specMembers[name] && name != "environment" && value.exists() {
			v.leave(value, "has no counterpart")
		}
	}
	if inner != "" && inner != id {
		v.change(parameters.get("prompt_id"), "is another id than prompt_id, which clients send and the slug is made of")
	}
	v.readSpecContent(spec, []string{inner, id}, raw)
}

// readSpecContent reads the content of a PromptSpec, whose JSON form may be below one of its ids.
func (v *version) readSpecContent(spec node, ids []string, raw *node) {
	parameters := spec.get("litellm_params")
	if text, ok := parameters.get("dotprompt_content").text(); ok {
		v.readPromptFile(parameters.get("dotprompt_content"), text)
		return
	}
	data := parameters.get("prompt_data")
	if text, ok := data.text(); ok {
		parsed, err := parse(data.file, data.path, []byte(text))
		if err != nil {
			v.refuse(data, err.Error())
			return
		}
		data = parsed
	}
	if raw != nil && !data.exists() {
		data = *raw
	}
	for _, id := range ids {
		if byID := data.get(id); byID.get("content").exists() {
			data = byID
			break
		}
	}
	if !data.get("content").exists() {
		v.refuse(spec, "has no content: only dotprompt keeps it in LiteLLM")
		return
	}
	v.readJSONForm(data)
}

// fetch reads a live proxy.
func (r *litellm) fetch() error {
	a, err := r.account("Authorization", "Bearer "+r.options.Key)
	if err != nil {
		return err
	}
	response, err := a.get(r.ctx, "/prompts/list", nil)
	if err != nil {
		return err
	}
	list := response.get("prompts")
	if list.kind() != '[' {
		return errors.New("the answer to GET /prompts/list has no list prompts: is this the address of the proxy?")
	}
	count := 0
	for spec := range list.items() {
		if count++; count > maxPrompts {
			return errTooManyPrompts
		}
		if err := r.fetchOne(a, spec); err != nil {
			if !isAboutOne(err) {
				return err
			}
			r.report.Entries = append(r.report.Entries, Entry{Kind: NotWritten, Prompt: spec.textOf("prompt_id"), Message: err.Error()})
		}
	}
	return nil
}

// fetchOne reads a prompt of the list, or all of its versions.
func (r *litellm) fetchOne(a *account, spec node) error {
	id, _ := splitVersion(spec.textOf("prompt_id"))
	path := "/prompts/" + url.PathEscape(id)
	specs := []node{spec}
	if r.options.AllVersions {
		response, err := a.get(r.ctx, path+"/versions", nil)
		switch {
		case isMissing(err): // of a configuration file, which has no versions
		case err != nil:
			return err
		default:
			specs = slices.Collect(response.get("prompts").items())
		}
	}
	for _, one := range specs {
		if !r.take() {
			return errTooManyPrompts
		}
		parameters := one.get("litellm_params")
		if parameters.get("dotprompt_content").exists() || parameters.get("prompt_data").exists() || parameters.textOf("prompt_integration") != "dotprompt" {
			r.spec(one, nil)
			continue
		}
		info, err := a.get(r.ctx, "/prompts/"+url.PathEscape(one.textOf("prompt_id"))+"/info", nil)
		if err != nil {
			return err
		}
		raw := info.get("raw_prompt_template")
		r.spec(one, &raw)
	}
	return nil
}
