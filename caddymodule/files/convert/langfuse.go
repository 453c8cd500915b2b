package convert

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// readLangfuse reads the array of Langfuse's export, or a live project.
func readLangfuse(c *conversion) ([]*prompt, error) {
	r := langfuse{conversion: c}
	if c.isLive() {
		err := r.fetch()
		return r.found.all, err
	}
	roots, err := c.roots()
	for _, root := range roots {
		switch root.kind() {
		case '[':
			for entry := range root.items() {
				r.add(entry)
			}
		case '{':
			r.add(root)
		default:
			c.refuse(root, "must be an array of prompts")
		}
	}
	return r.found.all, err
}

// langfuse collects the prompts of Langfuse.
type langfuse struct {
	*conversion
	found prompts
}

// add adds an entry of the export as a version.
func (r *langfuse) add(entry node) {
	name := entry.textOf("name")
	if name == "" {
		r.refuse(entry.at("name"), "must be the name of a prompt")
		return
	}
	r.found.of(name).readLangfuse(entry)
}

// langfuseMembers are the members of an entry that are read, or that are of Langfuse alone.
const langfuseMembers = `name type prompt config labels tags commitMessage version
	id projectId createdAt updatedAt createdBy creator isActive lastUpdatedAt resolutionGraph`

// readLangfuse adds an entry of the export as a version.
func (p *prompt) readLangfuse(entry node) {
	v := &version{number: entry.get("version").number(), dialect: domain.Chat, syntax: langfuseBraces, place: entry, message: entry.get("commitMessage")}
	p.versions = append(p.versions, v)
	for label := range entry.get("labels").items() {
		v.readLabel(label)
	}
	if tags := entry.get("tags"); tags.exists() && string(tags.value) != "[]" {
		v.leave(tags, "has no counterpart: presets have no tags")
	}
	if graph := entry.get("resolutionGraph"); graph.exists() {
		v.change(graph, "the text has the texts of the prompts that it refers to")
	}
	v.leaveOthers(entry, langfuseMembers)
	v.readLangfuseMessages(entry)
	v.readSettings(entry.get("config"))
	for i, s := range v.settings {
		if other := langfuseNames[s.name]; other != "" && s.value.exists() {
			v.change(s.value, "is "+other+" here")
			v.settings[i].name = other
		}
	}
}

// langfuseBraces is the syntax of Langfuse: {{name}}. Only a live project puts the texts of references in.
func langfuseBraces(text string) ([]segment, []finding) {
	segments, found := plainBraces(text)
	if strings.Contains(text, "@@@langfusePrompt:") {
		found = append(found, finding{"refers to another prompt: convert the live project, which puts the texts in", true})
	}
	return segments, found
}

// readLangfuseMessages reads the text of a text prompt as a system prompt, and the messages
// of a chat prompt.
func (v *version) readLangfuseMessages(entry node) {
	body := entry.get("prompt")
	kind := entry.textOf("type")
	if text, ok := body.text(); ok && kind != "chat" {
		v.messages = append(v.messages, message(body, "system", text))
		return
	}
	if kind == "text" || body.kind() != '[' {
		v.refuse(entry.at("prompt"), "must be text, or the messages of a chat prompt")
		return
	}
	items := slices.Collect(body.items())
	for i, m := range items {
		switch {
		case m.kind() != '{':
			v.refuse(m, "must be a message")
		case m.textOf("type") != "placeholder":
			if m.textOf("type") == "chatmessage" {
				m = m.without("type")
			}
			v.messages = append(v.messages, m)
		case i == len(items)-1:
			v.leave(m, "is a placeholder at the end: requests send such messages themselves, and a model gets them there")
		default:
			v.leave(m, "is a placeholder before other messages, which has no counterpart: messages of a request come after all messages of the preset")
		}
	}
}

// langfuseNames are other names of settings that configurations have, since Langfuse
// prescribes none.
var langfuseNames = map[string]string{
	"max_output_tokens": "max_completion_tokens", "maxTokens": "max_tokens", "maxOutputTokens": "max_completion_tokens", "topP": "top_p",
	"frequencyPenalty": "frequency_penalty", "presencePenalty": "presence_penalty", "model_name": "model", "modelName": "model",
	"stop_sequences": "stop", "stopSequences": "stop",
}

// fetch reads a live project. The answers are entries of an export. Langfuse puts the texts of
// references in.
func (r *langfuse) fetch() error {
	if !strings.Contains(r.options.Key, ":") {
		return errors.New("langfuse wants the public key, a colon and the secret key in --key-file")
	}
	a, err := r.account("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(r.options.Key)))
	if err != nil {
		return err
	}
	const path, pageSize = "/api/public/v2/prompts", "100"
	query := func(page int) url.Values { return url.Values{"page": {strconv.Itoa(page + 1)}, "limit": {pageSize}} }
	name := func(item node) string { return item.textOf("name") }
	listed, err := a.list(path, query, name)
	if err != nil {
		return err
	}
	return a.each(listed, name, func(item node, name string) error {
		path := path + "/" + url.PathEscape(name)
		var numbers []int
		for number := range item.get("versions").items() {
			numbers = append(numbers, number.number())
		}
		slices.Sort(numbers)
		if !r.options.AllVersions {
			entry, err := a.get(path, url.Values{"label": {production}})
			if isStatus(err, http.StatusNotFound) && len(numbers) > 0 {
				entry, err = a.get(path, url.Values{"version": {strconv.Itoa(numbers[len(numbers)-1])}})
			}
			if err == nil {
				r.found.of(name).leaveLangfuse(item, entry, numbers)
				r.add(entry)
			}
			return err
		}
		var entries []node
		for _, number := range numbers {
			entry, err := a.get(path, url.Values{"version": {strconv.Itoa(number)}})
			if err != nil {
				return err
			}
			entries = append(entries, entry)
		}
		for _, entry := range entries {
			r.add(entry)
		}
		return nil
	})
}

// leaveLangfuse reports the versions and the labels of a prompt that are not read. Its item of the
// list has the labels of all versions.
func (p *prompt) leaveLangfuse(item, entry node, numbers []int) {
	for _, number := range numbers {
		if number != entry.get("version").number() {
			p.unread = append(p.unread, strconv.Itoa(number))
		}
	}
	var here []string
	for label := range entry.get("labels").items() {
		text, _ := label.text()
		here = append(here, text)
	}
	for label := range item.get("labels").items() {
		if text, _ := label.text(); text != "" && !slices.Contains(here, text) {
			p.leave(label, "label "+strconv.Quote(text)+" stands for a version that is not taken")
		}
	}
}
