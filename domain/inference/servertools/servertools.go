// Package servertools knows the tools that gateways and providers run, and the ways to use them.
package servertools

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Tool is a tool that a gateway or a provider runs, with the ways to use it.
// docs/workspaces.md lists them, too.
type Tool struct {
	// Name is the name by which workspaces disable the tool.
	Name string
	// Types are the tool's types, without the namespace and the date in which many end.
	Types []string
	// Plugins are ids of plugins, and Fields the request fields that switch the tool on.
	Plugins, Fields []string
	// Models are names of models, in any letter case, and Variants are suffixes of a model's name
	// after a colon.
	Models, Variants []string
	// Brings are the tools that it uses if it has no list of its own.
	Brings []string
	// Runs is the member that names the models that the tool runs. Without one, it chooses them.
	Runs string

	implied *regexp.Regexp // matches a list of models in which one is the tool, nil for none
}

// Namespace is the prefix of the names of server tools.
const Namespace = "openrouter:"

//go:embed servertools.json
var text []byte

// known is what is known of tools. Another server tool can be disabled, too, and requests cannot use it
// where any is disabled.
var known = func() (table struct {
	ServerTools []*Tool
	// CallersTypes are the types of tools, and of choices, that belong to no server tool.
	CallersTypes []string
	// Plugins are the plugins that there are.
	Plugins []string
	// Members are the members of tools of all dialects, of the choice of one, of the parameters of
	// server tools, and of plugins. The parameters of a function are a JSON Schema.
	Members []string
},
) {
	if err := json.Unmarshal(text, &table); err != nil {
		panic(err) // a test reads it
	}
	const space = `[\s\p{Z}\x{85}]*`
	for _, t := range table.ServerTools {
		// Vendors may be before a model, and a reference behind it. LiteLLM takes a name with commas for
		// a list of models.
		switch {
		case t.Models != nil:
			t.implied = regexp.MustCompile(`(?i)(?:^|[,/])` + space + `(?:` + strings.Join(t.Models, "|") + `)` + space + `(?:$|[,:@])`)
		case t.Variants != nil:
			t.implied = regexp.MustCompile(`(?i)[:@]` + space + `(?:` + strings.Join(t.Variants, "|") + `)` + space + `(?:$|[,:@])`)
		}
	}
	return table
}()

// Members are the members that tools and plugins may have.
var Members = rawjson.NewNames(known.Members...)

// Names are the names of the known server tools.
var Names = func() (names []string) {
	for _, t := range known.ServerTools {
		names = append(names, t.Name)
	}
	return names
}()

// The known server tools by the ways to use them.
var (
	byType   = index(func(t *Tool) []string { return t.Types })
	byPlugin = index(func(t *Tool) []string { return t.Plugins })
	// ByField has them by the fields of requests.
	ByField = index(func(t *Tool) []string { return t.Fields })
)

func index(ways func(t *Tool) []string) map[string]*Tool {
	index := map[string]*Tool{}
	for _, t := range known.ServerTools {
		for _, way := range ways(t) {
			index[way] = t
		}
	}
	return index
}

// OfType returns the server tool of a type, which may be one that is not known. Many types end in a date.
func OfType(kind string) (t *Tool, isKnown bool) {
	bare := strings.TrimPrefix(kind, Namespace)
	undated := bare
	for i := strings.LastIndexByte(undated, '_'); i > 0 && strings.Trim(undated[i+1:], "0123456789") == ""; i = strings.LastIndexByte(undated, '_') {
		undated = undated[:i]
	}
	if t := byType[strings.TrimSuffix(undated, "_preview")]; t != nil {
		return t, true
	}
	if !strings.Contains(bare, ":") { // else it has another namespace
		bare = Namespace + bare
	}
	return &Tool{Name: bare}, false
}

// OfPlugin returns the server tool of a plugin, nil for none, and whether the plugin is known.
func OfPlugin(id string) (t *Tool, isKnown bool) {
	return byPlugin[id], slices.Contains(known.Plugins, id)
}

// OfModel returns the first server tool that a model's name implies, or nil.
func OfModel(model string) *Tool {
	for _, t := range known.ServerTools {
		if t.implied != nil && t.implied.MatchString(model) {
			return t
		}
	}
	return nil
}

// IsWebSearch reports whether LiteLLM runs web_search for a function's name. Letter case and signs do not
// count, since that may be WebSearch.
func IsWebSearch(name string) bool {
	return strings.EqualFold("websearch", strings.Map(func(char rune) rune {
		if unicode.IsLetter(char) || unicode.IsDigit(char) {
			return char
		}
		return -1
	}, name))
}

// IsCallers reports whether a type is that of no server tool.
func IsCallers(kind jsontext.Value) bool {
	return kind.Kind() == 'n' || slices.ContainsFunc(known.CallersTypes, func(name string) bool { return rawjson.IsText(kind, name) })
}
