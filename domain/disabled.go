package domain

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// vendorName returns the name in the vendor's namespace of a server tool, by which
// workspaces disable it, given the type that a request uses: web search and web
// fetch have types without the namespace too, some with a date.
func vendorName(tool string) string {
	for _, short := range []string{"web_search", "web_fetch"} {
		if strings.HasPrefix(tool, short) {
			return "openrouter:" + short
		}
	}
	return tool
}

// pluginTools are the server tools that plugins bring, by the plugin's id.
var pluginTools = map[string]string{
	"web": "openrouter:web_search", "web-fetch": "openrouter:web_fetch", "fusion": "openrouter:fusion",
}

// permitUnresolved is permit for a request that names no preset. A workspace that
// does not exist has nothing disabled. While the store is unavailable, what certainly
// uses no server tool goes on.
func (r *Resolver) permitUnresolved(ctx context.Context, who Principal, sent Request) error {
	workspace, err := r.workspace(ctx, who)
	switch {
	case KindOf(err) == NotFound:
		return nil
	case errors.Is(err, ErrUnavailable) && !sent.Opaque && !mayUseServerTool(sent.Body):
		return nil
	case err != nil:
		return err
	case sent.Opaque && len(workspace.disabledTools) > 0:
		return InvalidAt("content-encoding", "the body cannot be read, which it must where server tools are disabled: send it as it is or with gzip")
	}
	return workspace.permit(sent.Body, sent.Body)
}

// permit returns a Forbidden error for a body that uses a server tool that the
// workspace has disabled, and an Invalid one if it is not known to use none. sent
// is the body of the request that it was made of.
func (w *workspaceDefaults) permit(body, sent []byte) error {
	if len(w.disabledTools) == 0 {
		return nil
	}
	tool, _, err := usedServerTool(body, w.disabledTools)
	switch {
	case err != nil:
		return InvalidAt("", "is not JSON that can be read, which it must be where server tools are disabled")
	case tool == "":
		return nil
	}
	disabled := &Error{Kind: Forbidden, Code: ToolDisabled, Message: "Server tool " + tool + " is disabled in this workspace"}
	if _, place, _ := usedServerTool(sent, []string{tool}); place != "" && len(place) <= maxPlace {
		disabled.Issues = []Issue{{place, "is disabled in this workspace"}}
	}
	return disabled
}

// maxPlace bounds a place that is told, in bytes: tools can be nested deeply.
const maxPlace = 256

// usedServerTool returns the first of some server tools that a request of any dialect
// uses, and where its type stands, as findServerTool does.
func usedServerTool(body []byte, some []string) (tool, place string, err error) {
	return findServerTool(body, func(tool string) bool { return slices.Contains(some, tool) })
}

// mayUseServerTool reports whether a request uses any tool that a workspace can
// disable, or cannot be read, so that nobody knows.
func mayUseServerTool(body []byte) bool {
	tool, _, err := findServerTool(body, func(tool string) bool { return strings.HasPrefix(tool, "openrouter:") })
	return tool != "" || err != nil
}

// findServerTool returns the first wanted server tool that a request of any dialect
// uses, and where its type stands: in tools, in the tools of a tool's parameters or of
// a plugin, in those that an input item adds, or as a plugin. It returns nothing where
// there is none, and an error where that cannot be known: what is not JSON to us may
// be to a gateway.
//
// Repeated members all count, and names in any letter case, because gateways
// differ in what they make of them.
func findServerTool(body []byte, wanted func(tool string) bool) (tool, place string, err error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // which many skip
	s := &toolSearch{d: textDecoder(body), wanted: wanted}
	if len(bytes.TrimSpace(body)) == 0 {
		return "", "", nil
	}
	err = s.members(func(name string) error {
		switch {
		case strings.EqualFold(name, "tools"):
			return s.elements(s.readTool)
		case strings.EqualFold(name, "plugins"):
			return s.elements(s.readPlugin)
		case strings.EqualFold(name, "input"):
			return s.elements(s.readToolsOf)
		}
		return s.d.SkipValue()
	})
	switch {
	case s.tool != "":
		return s.tool, s.place, nil
	case err != nil:
		return "", "", err
	}
	if _, err = s.d.ReadToken(); !errors.Is(err, io.EOF) {
		return "", "", errTrailing
	}
	return "", "", nil
}

// toolSearch is a search for server tools.
type toolSearch struct {
	d           *jsontext.Decoder
	wanted      func(tool string) bool // given its vendorName
	tool, place string
}

// errFound ends a search, and errTrailing is text behind its end.
var (
	errFound    = errors.New("found")
	errTrailing = errors.New("text behind the end")
)

// readTool reads a tool, whose parameters may have tools of their own.
func (s *toolSearch) readTool() error {
	return s.members(func(name string) error {
		switch {
		case strings.EqualFold(name, "type") && s.d.PeekKind() == '"':
			token, err := s.d.ReadToken()
			if err == nil && s.found(vendorName(token.String())) {
				err = errFound
			}
			return err
		case strings.EqualFold(name, "parameters"):
			return s.readToolsOf()
		}
		return s.d.SkipValue()
	})
}

// found tells whether a tool is one of those that are searched, and notes it with
// the place that was read last. Only then is the place made, which is long where
// tools are nested deeply.
func (s *toolSearch) found(tool string) bool {
	if !s.wanted(tool) {
		return false
	}
	s.tool, s.place = tool, string(s.d.StackPointer())
	return true
}

// readPlugin reads a plugin, which brings a tool unless it is switched off, and
// may have tools of its own.
func (s *toolSearch) readPlugin() error {
	var on, off bool
	err := s.members(func(name string) error {
		kind := s.d.PeekKind()
		switch {
		case strings.EqualFold(name, "tools"):
			return s.elements(s.readTool)
		case strings.EqualFold(name, "enabled"):
			on, off = on || kind != 'f', off || kind == 'f'
		case strings.EqualFold(name, "id") && kind == '"':
			token, err := s.d.ReadToken()
			if err == nil {
				s.found(pluginTools[token.String()])
			}
			return err
		}
		return s.d.SkipValue()
	})
	switch {
	case err != nil || s.tool == "":
		return err
	case off && !on:
		s.tool, s.place = "", ""
		return nil
	}
	return errFound
}

// readToolsOf reads something that may have tools.
func (s *toolSearch) readToolsOf() error {
	return s.members(func(name string) error {
		if strings.EqualFold(name, "tools") {
			return s.elements(s.readTool)
		}
		return s.d.SkipValue()
	})
}

// members calls read before each value of the object that comes next, and skips
// anything else.
func (s *toolSearch) members(read func(name string) error) error {
	return s.each('{', '}', func() error {
		name, err := s.d.ReadToken()
		if err != nil {
			return err
		}
		return read(name.String())
	})
}

// elements calls read before each element of the array that comes next, and
// skips anything else.
func (s *toolSearch) elements(read func() error) error { return s.each('[', ']', read) }

func (s *toolSearch) each(open, end jsontext.Kind, read func() error) error {
	if s.d.PeekKind() != open {
		return s.d.SkipValue()
	}
	_, err := s.d.ReadToken()
	for err == nil && s.d.PeekKind() != end {
		err = read()
	}
	if err == nil {
		_, err = s.d.ReadToken()
	}
	return err
}
