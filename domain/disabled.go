package domain

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// serverTool begins the type of every server tool, a tool that the gateway runs
// itself.
const serverTool = "openrouter:"

// mayUseServerTools tells whether a body can hold the type of a server tool. plain
// tells that it is known to have no escapes. The first letter is left out because
// it is so frequent in text that the search would take several times as long.
func mayUseServerTools(body []byte, plain bool) bool {
	return bytes.Contains(body, []byte(serverTool[1:])) || !plain && hasEscapes(body)
}

// permitUnresolved is permit for a request that names no preset. Only one that
// may use a server tool, plain or not, makes it look for the workspace. One that
// does not exist has none disabled.
func (r *Resolver) permitUnresolved(ctx context.Context, who Principal, sent Request, plain bool) error {
	if !sent.Opaque && !mayUseServerTools(sent.Body, plain) {
		return nil
	}
	workspace, err := r.workspace(ctx, who)
	switch {
	case KindOf(err) == NotFound:
		return nil
	case err != nil:
		return err
	case sent.Opaque && len(workspace.disabledTools) > 0:
		return InvalidAt("content-encoding", "the body cannot be read, which it must where server tools are disabled: send it as it is or with gzip")
	}
	return workspace.permit(sent.Body, sent.Body)
}

// permit returns a Forbidden error for a body that uses a server tool that the
// workspace has disabled. sent is the body of the request that it was made of.
func (w *workspaceDefaults) permit(body, sent []byte) error {
	if len(w.disabledTools) == 0 || !mayUseServerTools(body, false) {
		return nil
	}
	tool, _ := usedServerTool(body, w.disabledTools)
	if tool == "" {
		return nil
	}
	disabled := &Error{Kind: Forbidden, Message: "Server tool " + tool + " is disabled in this workspace"}
	if _, place := usedServerTool(sent, []string{tool}); place != "" && len(place) <= maxPlace {
		disabled.Issues = []Issue{{place, "is disabled in this workspace"}}
	}
	return disabled
}

// maxPlace bounds a place that is told, in bytes: tools can be nested deeply.
const maxPlace = 256

// usedServerTool returns the first of some server tools that a request of any
// dialect uses, and where its type stands: in tools, in the tools of a tool's
// parameters or of a plugin, or in those that an input item adds. It returns
// nothing where there is none.
//
// Repeated members all count, and names in any letter case, because gateways
// differ in what they make of them. Of what is not JSON that counts which can be
// read.
func usedServerTool(body []byte, some []string) (tool, place string) {
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // which many skip
	s := &toolSearch{d: textDecoder(body), some: some}
	_ = s.members(func(name string) error {
		switch {
		case strings.EqualFold(name, "tools"):
			return s.elements(s.readTool)
		case strings.EqualFold(name, "plugins"), strings.EqualFold(name, "input"):
			return s.elements(s.readToolsOf)
		}
		return s.d.SkipValue()
	})
	return s.tool, s.place
}

// toolSearch is a search for server tools.
type toolSearch struct {
	d           *jsontext.Decoder
	some        []string
	tool, place string
}

// errFound ends a search.
var errFound = errors.New("found")

// readTool reads a tool, whose parameters may have tools of their own.
func (s *toolSearch) readTool() error {
	return s.members(func(name string) error {
		switch {
		case strings.EqualFold(name, "type") && s.d.PeekKind() == '"':
			token, err := s.d.ReadToken()
			if err != nil {
				return err
			}
			if i := slices.Index(s.some, token.String()); i >= 0 {
				s.tool, s.place = s.some[i], string(s.d.StackPointer())
				return errFound
			}
			return nil
		case strings.EqualFold(name, "parameters"):
			return s.readToolsOf()
		}
		return s.d.SkipValue()
	})
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
