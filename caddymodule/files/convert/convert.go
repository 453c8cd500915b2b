// Package convert reads the prompts of other systems, and returns them as presets in files.
// It makes a files.Set, and a Report of everything that has no counterpart.
//
// Each system is a Source with a file of its own. It reads an input into prompts with
// versions, whose texts still have the source's template language. template.go writes
// these texts as templates of presets. request.go checks each version like a request of
// the API. choose.go makes a preset of the versions of a prompt.
//
// Inputs and servers may be hostile to the one who converts. So reads, pages, requests,
// and the resolution of references are bounded. A report never has a value: no prompt, no
// setting and no credential, only names and places.
package convert

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
)

// Source is a system that prompts come from.
type Source string

// The sources.
const (
	OpenRouter    Source = "openrouter"
	OpenAI        Source = "openai"
	Langfuse      Source = "langfuse"
	LiteLLM       Source = "litellm"
	LiteLLMModels Source = "litellm-models"
	Portkey       Source = "portkey"
	Ollama        Source = "ollama"
	OpenWebUI     Source = "openwebui"
	Bifrost       Source = "bifrost"
	GitHub        Source = "github"
)

// Sources returns the names of all sources, in a fixed order.
func Sources() []string {
	var names []string
	for _, source := range []Source{OpenRouter, OpenAI, Langfuse, LiteLLM, LiteLLMModels, Portkey, Ollama, OpenWebUI, Bifrost, GitHub} {
		names = append(names, string(source))
	}
	return names
}

// Options say how to convert.
type Options struct {
	// Workspace is the slug of the workspace that gets the presets; default if empty.
	Workspace string
	// AllVersions takes all versions of a prompt, as a series that ends with the one that
	// requests get. Otherwise that one is taken alone.
	AllVersions bool
	// Key is the credential of a live account, empty for none. For Langfuse it is the public
	// key, a colon and the secret key.
	Key string
	// Stdin is read for the input "-".
	Stdin io.Reader
	// Transport sends the requests to a live account; nil for http.DefaultTransport.
	Transport http.RoundTripper
	// Timeout bounds the time of one answer of a live account; 0 for a minute.
	Timeout time.Duration
}

// Convert reads an input of a source. The input is a file, a folder, "-" for Options.Stdin,
// or the URL of a live account.
//
// A prompt that cannot be converted is an entry of the report, and the others are returned
// nevertheless. An error says that the input as a whole cannot be read.
func Convert(ctx context.Context, source Source, input string, o Options) (*files.Set, *Report, error) {
	c := &conversion{ctx: ctx, options: o, input: input, left: maxParts, findings: findings{entries: []Entry{}}}
	c.options.Workspace = cmp.Or(o.Workspace, domain.DefaultWorkspaceSlug)
	readers := map[Source]func(*conversion) ([]*prompt, error){
		OpenRouter: readOpenRouter, OpenAI: readOpenAI, Langfuse: readLangfuse, LiteLLM: readLiteLLM, Portkey: readPortkey,
		LiteLLMModels: readLiteLLMModels, Ollama: readOllama, OpenWebUI: readOpenWebUI, Bifrost: readBifrost, GitHub: readGitHub,
	}
	read := readers[source]
	if read == nil {
		return nil, nil, fmt.Errorf("the source must be one of %s", strings.Join(Sources(), ", "))
	}
	prompts, err := read(c)
	if c.left <= 0 {
		err = errTooManyParts
	}
	if err != nil {
		return nil, nil, err
	}
	set, written, err := c.assemble(prompts)
	if err != nil {
		return nil, nil, err
	}
	return set, &Report{Source: source, Written: written, Entries: c.entries}, nil
}

// conversion is one call of Convert.
type conversion struct {
	findings // of no prompt
	ctx      context.Context
	options  Options
	input    string
	left     int // parts of the input that may still be read
}

// isLive reports whether the input is a live account.
func (c *conversion) isLive() bool {
	return strings.HasPrefix(c.input, "https://") || strings.HasPrefix(c.input, "http://")
}

// findings are what a report has about something.
type findings struct {
	entries []Entry
	refused bool // an entry tells why the thing cannot be written
}

func (f *findings) add(kind Kind, at node, message string) {
	f.entries = append(f.entries, Entry{Kind: kind, File: at.file, Path: at.path, Message: message})
	f.refused = f.refused || kind == NotWritten
}

// leave reports a part that has no counterpart.
func (f *findings) leave(at node, message string) { f.add(LeftOut, at, message) }

// change reports a part that is another one here.
func (f *findings) change(at node, message string) { f.add(Changed, at, message) }

// refuse reports why the whole cannot be written.
func (f *findings) refuse(at node, message string) { f.add(NotWritten, at, message) }

// leaveOthers reports the members of an object that are not read. read has the names of the
// others, and of those that belong to the source alone, such as ids and times.
func (f *findings) leaveOthers(at node, read string) {
	known := strings.Fields(read)
	for name, value := range at.members() {
		if value.exists() && !slices.Contains(known, name) {
			f.leave(value, "has no counterpart")
		}
	}
}

// prompt is a prompt of a source with its versions.
type prompt struct {
	findings
	// name is what the source calls it. The slug is made of it.
	name string
	// title and description are empty for none. The title is the name if it is empty.
	title, description string
	disabled           bool
	// versions are in the order of the source, oldest first. Those with numbers are sorted.
	versions []*version
	// unread are versions that the source names, and that are not read.
	unread []string
	// chosen is the number of the version that requests get. It is 0 if the source does not
	// tell: then it is the last with isProduction, or else the last.
	chosen int
	// oneUnnumbered is set if the source has at most one version without a number.
	oneUnnumbered bool
}

// about adds a finding about a version.
func (p *prompt) about(v *version, kind Kind, at node, message string) {
	p.add(kind, at, message)
	p.entries[len(p.entries)-1].Version = v.number
}

// version is a version of a prompt in its source's template language.
type version struct {
	findings
	number       int // 0 if the source does not tell
	isProduction bool
	labels       []node // texts
	message      node   // the author's reason
	place        node   // of the version as a whole
	dialect      domain.Dialect
	// syntax reads the texts of the messages. It is nil if they have no variables.
	syntax syntax
	// messages are objects with role and content.
	messages []node
	// given are the variables of a call. A source may show the text with their values.
	given node
	// settings are other members of the request.
	settings []setting
}

// setting is a member of a request, and where it comes from.
type setting struct {
	name  string
	value node
}

// set adds a setting.
func (v *version) set(name string, value node) {
	v.settings = append(v.settings, setting{name, value})
}

// readSettings adds the members of an object as settings.
func (v *version) readSettings(config node) {
	if config.exists() && config.kind() != '{' {
		v.leave(config, "has no counterpart: it is no object of settings")
	}
	for name, value := range config.members() {
		v.set(name, value)
	}
}

// readMessages adds the messages of a list without some members.
func (v *version) readMessages(list node, without ...string) {
	if list.exists() && list.kind() != '[' {
		v.refuse(list, "must be a list of messages")
	}
	for m := range list.items() {
		if m.kind() != '{' {
			v.refuse(m, "must be a message")
			continue
		}
		v.messages = append(v.messages, m.without(without...))
	}
}

// production is the label of the version that clients of some sources get without naming
// one.
const production = "production"

// readLabel adds a label, which is a text or an object with a name.
func (v *version) readLabel(label node) {
	if label.kind() == '{' {
		label = label.get("name")
	}
	text, ok := label.text()
	if !ok {
		v.leave(label, "must be the name of a label")
		return
	}
	v.labels = append(v.labels, label)
	v.isProduction = v.isProduction || text == production
}
