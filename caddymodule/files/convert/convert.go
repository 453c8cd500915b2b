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
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
)

// Source is a system that prompts come from.
type Source string

// The sources.
const (
	OpenRouter Source = "openrouter"
	OpenAI     Source = "openai"
	Langfuse   Source = "langfuse"
	LiteLLM    Source = "litellm"
	Portkey    Source = "portkey"
)

// Sources returns all sources, in a fixed order.
func Sources() []Source { return []Source{OpenRouter, OpenAI, Langfuse, LiteLLM, Portkey} }

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
	// Wait waits before a repeated request; nil for a timer. It ends early with ctx.
	Wait func(ctx context.Context, d time.Duration) error
}

// Convert reads an input of a source. The input is a file, a folder, "-" for Options.Stdin,
// or the URL of a live account.
//
// A prompt that cannot be converted is an entry of the report, and the others are returned
// nevertheless. An error says that the input as a whole cannot be read.
func Convert(ctx context.Context, source Source, input string, o Options) (*files.Set, *Report, error) {
	c := &conversion{ctx: ctx, options: o, input: input, report: Report{Source: source, Written: []Written{}, Entries: []Entry{}}}
	if c.options.Workspace == "" {
		c.options.Workspace = domain.DefaultWorkspaceSlug
	}
	readers := map[Source]func(*conversion) ([]*prompt, error){
		OpenRouter: readOpenRouter, OpenAI: readOpenAI, Langfuse: readLangfuse, LiteLLM: readLiteLLM, Portkey: readPortkey,
	}
	read := readers[source]
	if read == nil {
		return nil, nil, fmt.Errorf("the source must be one of %s", joinSources())
	}
	prompts, err := read(c)
	if c.taken > maxPrompts {
		err = errTooManyPrompts
	}
	if err != nil {
		return nil, nil, err
	}
	set, err := c.assemble(prompts)
	if err != nil {
		return nil, nil, err
	}
	return set, &c.report, nil
}

func joinSources() string {
	names := make([]string, 0, len(Sources()))
	for _, s := range Sources() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// conversion is one call of Convert.
type conversion struct {
	ctx     context.Context
	options Options
	input   string
	report  Report
	taken   int // how often take was called
}

// take counts a prompt, a version or a part of the input that may be one. A reader takes each
// before it keeps anything of it. It is not ok beyond maxPrompts: then Convert fails.
func (c *conversion) take() (ok bool) {
	c.taken++
	return c.taken <= maxPrompts
}

// isLive reports whether the input is a live account.
func (c *conversion) isLive() bool {
	return strings.HasPrefix(c.input, "https://") || strings.HasPrefix(c.input, "http://")
}

// prompt is a prompt of a source with its versions.
type prompt struct {
	// name is what the source calls it. The slug is made of it.
	name string
	// title and description are empty for none. The title is the name if it is empty.
	title, description string
	disabled           bool
	// versions are in the order of the source, oldest first. Those with numbers are sorted.
	versions []*version
	// chosen is the number of the version that requests get. It is 0 if the source does not
	// tell: then it is the last with isProduction, or else the last.
	chosen int
	// oneUnnumbered is set if the source has at most one version without a number.
	oneUnnumbered bool
	entries       []Entry
}

// version is a version of a prompt in its source's template language.
type version struct {
	number       int // 0 if the source does not tell
	isProduction bool
	labels       []string
	message      string // the author's reason, empty for none
	place        node   // of the version as a whole
	labelPlace   node
	messagePlace node
	dialect      domain.Dialect
	// syntax reads the texts of the messages. It is nil if they have no variables.
	syntax syntax
	// messages are objects with role and content.
	messages []node
	// settings are other members of the request.
	settings []setting
	entries  []Entry
	refused  bool // an entry tells why the version cannot be written
}

// setting is a member of a request, and where it comes from.
type setting struct {
	name  string
	value node
	// places are the paths of a list's items in the source. It is nil while it has all of them.
	places []string
}

// leave reports a part of a prompt that has no counterpart.
func (p *prompt) leave(at node, message string) {
	p.entries = append(p.entries, Entry{Kind: LeftOut, File: at.file, Path: at.path, Message: message})
}

// refuse reports why a prompt cannot be written.
func (p *prompt) refuse(at node, message string) {
	p.entries = append(p.entries, Entry{Kind: NotWritten, File: at.file, Path: at.path, Message: message})
}

func (v *version) add(kind Kind, at node, message string) {
	v.entries = append(v.entries, Entry{Kind: kind, File: at.file, Path: at.path, Message: message})
}

// leave reports a part of a version that has no counterpart.
func (v *version) leave(at node, message string) { v.add(LeftOut, at, message) }

// change reports a part of a version that is another one here.
func (v *version) change(at node, message string) { v.add(Changed, at, message) }

// refuse reports why a version cannot be written.
func (v *version) refuse(at node, message string) {
	v.add(NotWritten, at, message)
	v.refused = true
}

// set adds a setting.
func (v *version) set(name string, value node) {
	v.settings = append(v.settings, setting{name: name, value: value})
}
