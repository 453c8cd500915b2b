package convert

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
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
	at := r.file(d.name)
	if !isJSON && !utf8.Valid(d.text) {
		r.refuse(at, "is not UTF-8")
		return
	}
	if extension == ".yaml" || extension == ".yml" {
		r.refuse(at, "is no prompt: if it is the proxy's configuration, the source litellm-models takes its models")
		return
	}
	if !isJSON {
		r.named(cmp.Or(strings.TrimSuffix(d.name, filepath.Ext(d.name)), noSlug), at).readPromptFile(at, string(d.text))
		return
	}
	root, err := at.parse(d.text)
	if err != nil {
		r.refuse(at, err.Error())
		return
	}
	switch {
	case root.get("prompts").kind() == '[':
		for spec := range root.get("prompts").items() {
			r.spec(spec)
		}
	case root.get("prompt_id").exists():
		r.spec(root)
	default:
		r.refuse(root, "must be the answer of /prompts/list, or a prompt of it")
	}
}

// add adds a version to a prompt.
func (r *litellm) add(id string, number int, place node) *version {
	v := &version{number: number, place: place, dialect: domain.Chat, syntax: jinja}
	p := r.found.of(id)
	p.oneUnnumbered = true
	p.versions = append(p.versions, v)
	return v
}

// named adds the version of a name, <id> or <id>.v2. LiteLLM takes the first for a request without
// a version.
func (r *litellm) named(name string, place node) *version {
	id, number := splitVersion(name)
	v := r.add(id, number, place)
	v.isProduction = number == 0
	return v
}

// readJSONForm reads {content, metadata}.
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
const specMembers = "prompt_id litellm_params prompt_info created_at updated_at version created_by environment"

// specParameters are the members of litellm_params that are read.
var specParameters = []string{"prompt_id", "prompt_integration", "dotprompt_content", "prompt_data", "prompt_directory"}

// spec reads a PromptSpec. The proxy looks for the id of a request among the outer ids, so those tell prompts apart.
func (r *litellm) spec(spec node) {
	parameters := spec.get("litellm_params")
	id, number := splitVersion(spec.textOf("prompt_id"))
	inner, _ := splitVersion(parameters.textOf("prompt_id"))
	id = cmp.Or(id, inner)
	number = cmp.Or(spec.get("version").number(), number)
	if id == "" {
		r.refuse(spec.at("prompt_id"), "must be the id of a prompt")
		return
	}
	v := r.add(id, number, spec)
	environment := spec.get("environment")
	if !environment.exists() {
		environment = spec.get("prompt_info").get("environment")
	}
	if text, _ := environment.text(); text != "" {
		v.isProduction = text == production
		v.leave(environment, "has no counterpart: a preset has no environments")
	}
	for name, value := range parameters.members() {
		if !slices.Contains(specParameters, name) && value.exists() {
			v.leave(value, "is a setting of the proxy, and is not taken")
		}
	}
	v.leaveOthers(spec, specMembers)
	if inner != "" && inner != id {
		v.change(parameters.get("prompt_id"), "is another id than prompt_id, which clients send and the slug is made of")
	}
	v.readSpecContent(spec, []string{inner, id})
}

// readSpecContent reads the content of a PromptSpec, whose JSON form may be below one of its ids.
func (v *version) readSpecContent(spec node, ids []string) {
	parameters := spec.get("litellm_params")
	if text, ok := parameters.get("dotprompt_content").text(); ok {
		v.readPromptFile(parameters.get("dotprompt_content"), text)
		return
	}
	data := parameters.get("prompt_data")
	if text, ok := data.text(); ok {
		parsed, err := data.parse([]byte(text))
		if err != nil {
			v.refuse(data, err.Error())
			return
		}
		data = parsed
	}
	for _, id := range ids {
		if byID := data.get(id); byID.get("content").exists() {
			data = byID
			break
		}
	}
	if !data.get("content").exists() {
		v.refuse(spec, "has no content: convert the folder of its .prompt files, if it has one")
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
	response, err := a.get("/prompts/list", nil)
	if err != nil {
		return err
	}
	list := slices.Collect(response.get("prompts").items())
	if response.get("prompts").kind() != '[' {
		return errors.New("the answer to GET /prompts/list has no list prompts: is this the address of the proxy?")
	}
	return a.each(list, func(spec node) string { return spec.textOf("prompt_id") }, func(spec node, name string) error {
		id, _ := splitVersion(name)
		specs := []node{spec}
		if r.options.AllVersions {
			response, err := a.get("/prompts/"+url.PathEscape(id)+"/versions", nil)
			if err == nil {
				specs = slices.Collect(response.get("prompts").items())
			} else if !isStatus(err, http.StatusNotFound) { // one of a configuration file has no versions
				return err
			}
		}
		for _, one := range specs {
			r.spec(one)
		}
		return nil
	})
}
