package convert

import (
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
)

// production is the label of the version that clients of some sources get without naming
// one.
const production = "production"

// readLangfuse reads the array of Langfuse's export, or a live project.
func readLangfuse(c *conversion) ([]*prompt, error) {
	var entries []node
	var err error
	if c.isLive() {
		entries, err = c.fetchLangfuse()
	} else {
		entries, err = c.langfuseEntries()
	}
	if err != nil {
		return nil, err
	}
	var found prompts
	texts := newLangfuseTexts(entries)
	for _, entry := range entries {
		name := entry.textOf("name")
		if name == "" {
			c.refuse(entry.at("name"), "must be the name of a prompt")
			continue
		}
		p := found.of(name)
		p.readLangfuse(entry, texts)
	}
	for _, p := range found.all {
		unnumbered := func(v *version) bool { return v.number == 0 }
		if len(p.versions) > 1 && slices.ContainsFunc(p.versions, unnumbered) {
			p.entries = append(p.entries, Entry{Kind: Changed, Message: "the input does not number the versions: their order in the input is taken"})
		}
	}
	return found.all, nil
}

// langfuseEntries returns the entries of the input's files.
func (c *conversion) langfuseEntries() (entries []node, err error) {
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	for _, root := range roots {
		switch root.kind() {
		case '[':
			for entry := range root.items() {
				if !c.take() {
					return nil, errTooManyPrompts
				}
				entries = append(entries, entry)
			}
		case '{':
			entries = append(entries, root)
		default:
			c.refuse(root, "must be an array of prompts")
		}
	}
	return entries, nil
}

// langfuseMembers are the members of an entry that are read, or that are of Langfuse alone.
var langfuseMembers = map[string]bool{
	"name": true, "type": true, "prompt": true, "config": true, "labels": true, "tags": true, "commitMessage": true, "version": true,
	"id": true, "projectId": true, "createdAt": true, "updatedAt": true, "createdBy": true, "creator": true, "isActive": true,
	"lastUpdatedAt": true, "resolutionGraph": true,
}

// readLangfuse adds an entry of the export as a version.
func (p *prompt) readLangfuse(entry node, texts *langfuseTexts) {
	v := &version{number: entry.get("version").number(), dialect: domain.Chat, place: entry, labelPlace: entry.at("labels"), messagePlace: entry.at("commitMessage")}
	p.versions = append(p.versions, v)
	v.syntax = texts.syntax
	v.message = entry.textOf("commitMessage")
	for label := range entry.get("labels").items() {
		text, ok := label.text()
		if !ok {
			v.leave(label, "must be the name of a label")
			continue
		}
		v.labels = append(v.labels, text)
		v.isProduction = v.isProduction || text == production
	}
	if tags := entry.get("tags"); tags.exists() && string(tags.value) != "[]" {
		v.leave(tags, "has no counterpart: presets have no tags")
	}
	if entry.get("resolutionGraph").exists() {
		v.change(entry.at("resolutionGraph"), "the text has the texts of the prompts that it refers to")
	}
	for name, value := range entry.members() {
		if value.exists() && !langfuseMembers[name] {
			v.leave(value, "has no counterpart")
		}
	}
	v.readLangfuseMessages(entry)
	v.readLangfuseConfig(entry.get("config"))
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

// readLangfuseConfig reads the configuration, which may be any JSON.
func (v *version) readLangfuseConfig(config node) {
	if config.exists() && config.kind() != '{' {
		v.leave(config, "has no counterpart: it is no object of settings")
		return
	}
	for name, value := range config.members() {
		if other := langfuseNames[name]; other != "" && value.exists() {
			v.change(value, "is "+other+" here")
			name = other
		}
		v.set(name, value)
	}
}

// fetchLangfuse reads a live project. The answers are entries of an export. Langfuse puts
// the texts of references in.
func (c *conversion) fetchLangfuse() (entries []node, err error) {
	if !strings.Contains(c.options.Key, ":") {
		return nil, errors.New("langfuse wants the public key, a colon and the secret key in --key-file")
	}
	a, err := c.account("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.options.Key)))
	if err != nil {
		return nil, err
	}
	const path, pageSize = "/api/public/v2/prompts", "100"
	seen := make(map[string]bool)
	var listed []node
	query := func(page int) url.Values { return url.Values{"page": {strconv.Itoa(page + 1)}, "limit": {pageSize}} }
	total := func(page node) node { return page.get("meta").get("totalItems") }
	err = a.pages(c.ctx, path, "data", query, total, func(item node) bool {
		name := item.textOf("name")
		if name == "" {
			c.refuse(item.at("name"), "must be the name of a prompt")
		}
		isNew := name != "" && !seen[name]
		if isNew {
			seen[name] = true
			listed = append(listed, item)
		}
		return isNew
	})
	if err != nil {
		return nil, err
	}
	for _, item := range listed {
		fetched, err := c.fetchLangfusePrompt(a, path, item)
		if err != nil {
			if !isAboutOne(err) {
				return nil, err
			}
			c.report.Entries = append(c.report.Entries, Entry{Kind: NotWritten, Prompt: item.textOf("name"), Message: err.Error()})
			continue
		}
		entries = append(entries, fetched...)
	}
	return entries, nil
}

// fetchLangfusePrompt reads the version of a prompt that requests get, or all of them. The
// list tells the numbers and the labels of the others.
func (c *conversion) fetchLangfusePrompt(a *account, path string, item node) (entries []node, err error) {
	name := item.textOf("name")
	path += "/" + url.PathEscape(name)
	var numbers []int
	for number := range item.get("versions").items() {
		numbers = append(numbers, number.number())
	}
	slices.Sort(numbers)
	if c.options.AllVersions {
		for _, number := range numbers {
			if !c.take() {
				return nil, errTooManyPrompts
			}
			entry, err := a.get(c.ctx, path, url.Values{"version": {strconv.Itoa(number)}})
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry)
		}
		return entries, nil
	}
	entry, err := a.get(c.ctx, path, url.Values{"label": {production}})
	if isMissing(err) && len(numbers) > 0 {
		entry, err = a.get(c.ctx, path, url.Values{"version": {strconv.Itoa(numbers[len(numbers)-1])}})
	}
	if err != nil {
		return nil, err
	}
	c.reportLangfuseOthers(item, entry, numbers)
	return []node{entry}, nil
}

// reportLangfuseOthers reports the versions and the labels of a prompt that are not read.
func (c *conversion) reportLangfuseOthers(item, entry node, numbers []int) {
	add := func(path, message string) {
		c.report.Entries = append(c.report.Entries, Entry{Kind: LeftOut, Prompt: item.textOf("name"), File: item.file, Path: path, Message: message})
	}
	var others []string
	for _, number := range numbers {
		if number != entry.get("version").number() {
			others = append(others, strconv.Itoa(number))
		}
	}
	if len(others) > 0 {
		add(item.path+"/versions", "other versions are not taken without --all-versions: "+files.ShortList(others))
	}
	var here []string
	for label := range entry.get("labels").items() {
		text, _ := label.text()
		here = append(here, text)
	}
	for label := range item.get("labels").items() {
		if text, _ := label.text(); text != "" && !slices.Contains(here, text) {
			add(label.path, "label "+strconv.Quote(text)+" stands for a version that is not taken")
		}
	}
}

// isLangfuseNumber reports whether a reference's version is the number of an entry.
func isLangfuseNumber(entry node, text string) bool {
	number, err := strconv.Atoi(text)
	return err == nil && number > 0 && entry.get("version").number() == number
}
