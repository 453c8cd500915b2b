package inference

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// toolSearch is the state of findServerTool and of findModel.
type toolSearch struct {
	text   *rawjson.Walker
	wanted func(tool string) bool
	// allowed reports whether a model may be named. Nil allows all. One that may not ends
	// the search as if it were a tool.
	allowed func(model string) bool
	at      string // the place of the text
	names   int    // bytes of the names around the next value
	models  int    // named so far
	visited int    // members, tools and plugins so far
	where   string // the end of errors
	use     toolUse
}

// errFound ends a search that was successful.
var errFound = errors.New("found")

// maxVisited bounds the members, tools and plugins that are searched in a body. A body of 32 MiB
// could else have millions, and is small when it is compressed. The fields of messages do not
// count: they are many in large requests, and are compared with one name.
const maxVisited = 64 << 10

// maxMalformed bounds a body that is searched up to where it is no JSON, in bytes. The decoder
// copies the names around an error several times.
const maxMalformed = 64 << 10

// search returns the first use that s looks for in a body.
func (s *toolSearch) search(body []byte) (toolUse, error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // many gateways skip a byte order mark
	if len(bytes.TrimSpace(body)) == 0 {
		return toolUse{}, nil
	}
	if len(body) > maxMalformed {
		if err := rawjson.Check(body); err != nil {
			return toolUse{}, err
		}
	}
	s.text = rawjson.New(body)
	if s.text.Kind() != '{' {
		return toolUse{}, s.refuse("must be an object")
	}
	_, err := s.readRequestWith(true, s.readOwnField)
	if err == nil {
		err = s.text.End()
	}
	if errors.Is(err, errFound) {
		return s.use, nil
	}
	return toolUse{}, err
}

// readParameters reads the parameters of a tool or a plugin, which have members of a request. It
// returns the state of their list of tools.
func (s *toolSearch) readParameters() (toolList, error) {
	return s.readRequestWith(false, s.readField)
}

// readRequestWith reads a request, or a part of it that a gateway may treat as a request, with a
// function that reads other members. isFirst tells that a member has the name of the first one of
// the object.
func (s *toolSearch) readRequestWith(top bool, other func(name string, isFirst bool) error) (list toolList, err error) {
	first, read := "", 0
	err = s.members(func(name string) error {
		if read++; read == 1 {
			first = name
		}
		is := func(other string) bool { return strings.EqualFold(name, other) }
		switch {
		case is("tools"):
			list.add(name == "tools" && s.text.Kind() == '[')
			return s.elements(s.readTool)
		case is("plugins"):
			return s.elements(s.readPlugin)
		case is("tool_choice"):
			return s.readChoice()
		case is("input"), is("messages"):
			return s.readItems()
		case top && name == "model":
			return s.readModel(true)
		case containsFold(ownModelFields, name) && s.text.Kind() != 'n':
			return s.refuse("must not be sent")
		case containsFold(mergedFields, name):
			if kind := s.text.Kind(); kind != '{' && kind != 'n' { // LiteLLM takes a list of pairs
				return s.refuse("must be an object")
			}
			_, err := s.readRequestWith(false, s.readPartField)
			return err
		}
		if isModels, err := s.readModels(name); isModels {
			return err
		}
		return other(name, name == first)
	})
	return list, err
}

// readModels reads a member that names models, of a request, a tool or a plugin. It returns
// false for any other member, which it does not read.
func (s *toolSearch) readModels(name string) (isModels bool, err error) {
	switch {
	case containsFold(modelFields, name):
		return true, s.readNestedModel()
	case containsFold(modelListFields, name):
		return true, s.elements(s.readNestedModel)
	case containsFold(fallbackFields, name):
		return true, s.elements(s.readFallback)
	}
	return false, nil
}

// readField reads another member of an object.
func (s *toolSearch) readField(name string, _ bool) error { return s.readSwitch(toolOfField(name)) }

// readOwnField is readField for the request itself. The Resolver reads the names of presets and
// prompts only as they are written. A gateway that reads another spelling may have such a prompt,
// with a model and tools of its own.
func (s *toolSearch) readOwnField(name string, isFirst bool) error {
	if name == foldName(name) {
		return s.readField(name, isFirst)
	}
	return s.readPartField(name, isFirst)
}

// readPartField is readField for a part of the request, in which the Resolver reads no names of
// presets and prompts.
func (s *toolSearch) readPartField(name string, isFirst bool) error {
	if isForPresets(name) && s.text.Kind() != 'n' {
		return s.refuse("must not be sent")
	}
	return s.readField(name, isFirst)
}

// toolList tells whether an object has its own list of tools for every gateway. given is
// set if it has an array of the exact name. missing is set if it has a member of another
// type, or with the name in another letter case.
type toolList struct{ given, missing bool }

func (l *toolList) add(given bool) {
	l.given = l.given || given
	l.missing = l.missing || !given
}

func (l toolList) certain() bool { return l.given && !l.missing }

// readTool reads a tool or just its type. A tool may have its own tools and models.
func (s *toolSearch) readTool() error {
	var list toolList
	var bringing, at string
	if isObject, err := s.readName(toolOfType); !isObject {
		return err
	}
	err := s.members(func(name string) error {
		is := func(other string) bool { return strings.EqualFold(name, other) }
		switch {
		case is("type"):
			kind, err := s.readText()
			if err != nil {
				return err
			}
			tool := toolOfType(kind)
			if impliedTools(tool) != nil {
				bringing, at = tool, "/"+name
			}
			return s.find(tool)
		case is("parameters"):
			inner, err := s.readParameters()
			list.add(name == "parameters" && inner.certain())
			return err
		case is("tools"):
			return s.elements(s.readTool)
		}
		if isModels, err := s.readModels(name); isModels {
			return err
		}
		return s.readSwitch(toolOfMember(name))
	})
	if err != nil || list.certain() {
		return err
	}
	return s.findBrought(bringing, at)
}

// readName reads a tool or plugin that is given by name only. It returns true for an
// object, which it does not read.
func (s *toolSearch) readName(toolOf func(name string) string) (isObject bool, err error) {
	if err := s.visit(); err != nil {
		return false, err
	}
	switch s.text.Kind() {
	case '{':
		return true, nil
	case '"':
		name, err := s.readText()
		if err == nil {
			err = s.findAny(toolOf(name))
		}
		return false, err
	case 'n':
		return false, s.text.Skip()
	default:
		return false, s.refuse("must be an object")
	}
}

// place returns the JSON Pointer of the last value, or of a member below it. It returns "" if
// that has more than maxPlace bytes.
func (s *toolSearch) place(below string) string {
	if s.names > maxPlace { // the decoder would copy the names
		return ""
	}
	place := s.at + s.text.Pointer() + below
	if len(place) > maxPlace {
		return ""
	}
	return place
}

// find ends the search at the last value if it uses a wanted tool.
func (s *toolSearch) find(tool string) error {
	if tool == "" || !s.wanted(tool) {
		return nil
	}
	s.use = toolUse{tool: tool, place: s.place("")}
	return errFound
}

// findAny is find for a tool and the tools that it brings.
func (s *toolSearch) findAny(tool string) error {
	if err := s.find(tool); err != nil {
		return err
	}
	return s.findBrought(tool, "")
}

// findBrought is find for a tool that another brings. at is the tool's place below the last
// value.
func (s *toolSearch) findBrought(tool, at string) error {
	for _, brought := range impliedTools(tool) {
		if s.wanted(brought) {
			s.use = toolUse{tool: brought, place: s.place(at), brought: true}
			return errFound
		}
	}
	return nil
}

// readSwitch reads a value that switches a tool on, unless it is null or false. The tool
// may be empty.
func (s *toolSearch) readSwitch(tool string) error {
	kind := s.text.Kind()
	if err := s.text.Skip(); err != nil || kind == 'n' || kind == 'f' {
		return err
	}
	return s.findAny(tool)
}

// readChoice reads the choice of one tool, by its type, or of several. The tools themselves
// are elsewhere.
func (s *toolSearch) readChoice() error {
	return s.members(func(name string) error {
		switch {
		case strings.EqualFold(name, "type"):
			kind, err := s.readText()
			if err == nil {
				err = s.find(toolOfType(kind))
			}
			return err
		case strings.EqualFold(name, "tools"):
			return s.elements(s.readChoice)
		}
		return s.text.Skip()
	})
}

// readPlugin reads a plugin or just its id. A plugin brings its tool unless it is switched
// off. It may have its own tools, models and parameters.
func (s *toolSearch) readPlugin() error {
	if isObject, err := s.readName(toolOfPlugin); !isObject {
		return err
	}
	var on, off bool
	var list toolList
	var used, bringing, at string
	err := s.members(func(name string) error {
		is := func(other string) bool { return strings.EqualFold(name, other) }
		switch {
		case is("tools"):
			list.add(name == "tools" && s.text.Kind() == '[')
			return s.elements(s.readTool)
		case is("parameters"):
			_, err := s.readParameters()
			return err
		case is("enabled"): // in another letter case, some gateways ignore it
			kind := s.text.Kind()
			on, off = on || kind != 'f', off || kind == 'f' && name == "enabled"
		case is("id"):
			id, err := s.readText()
			tool := toolOfPlugin(id)
			if tool != "" && s.wanted(tool) {
				used, at = tool, "/"+name
			}
			if impliedTools(tool) != nil && used == "" {
				bringing, at = tool, "/"+name
			}
			return err
		}
		if isModels, err := s.readModels(name); isModels {
			return err
		}
		return s.text.Skip()
	})
	switch {
	case err != nil, off && !on:
		return err
	case used != "":
		s.use = toolUse{tool: used, place: s.place(at)}
		return errFound
	case list.certain():
		return nil
	}
	return s.findBrought(bringing, at)
}

// readItems reads input items or messages, which may add tools. An input may also be text.
func (s *toolSearch) readItems() error {
	if s.text.Kind() == '"' {
		return s.text.Skip()
	}
	readMember := func(name string) error {
		if strings.EqualFold(name, "tools") {
			return s.elements(s.readTool)
		}
		return s.text.Skip()
	}
	return s.elements(func() error {
		if s.text.Kind() == '[' {
			return s.refuse("must be an object")
		}
		return s.allMembers(readMember)
	})
}

// readFallback reads the name of a model, or a request with a model. It may also be an
// object with lists of those, see mayBeReplaced. LiteLLM then reads its first member, and would
// take one name or the names of an object for a list.
func (s *toolSearch) readFallback() error {
	if s.text.Kind() != '{' {
		return s.readNestedModel()
	}
	_, err := s.readRequestWith(false, func(name string, isFirst bool) error {
		kind := s.text.Kind()
		switch {
		case !mayBeReplaced(name):
			return s.readField(name, false)
		case isFirst && (kind == '"' || kind == '{'):
			return s.refuse("must be an array")
		case kind != '[':
			return s.readPartField(name, false)
		}
		return s.elements(func() error {
			if kind := s.text.Kind(); kind != '"' && kind != '{' {
				return s.text.Skip()
			}
			return s.readFallback()
		})
	})
	return err
}

// readNestedModel reads a model's name that is not the request's own.
func (s *toolSearch) readNestedModel() error { return s.readModel(false) }

// fieldNameMessage refuses a model with the name of a field.
const fieldNameMessage = "must not have the name of a field"

// readModel reads a model's name. Only the request's own model may refer to a preset, which
// the Resolver resolves. In other places a gateway resolves it, and that preset may use any
// tool.
func (s *toolSearch) readModel(own bool) error {
	name, err := s.readText()
	model, _, _ := strings.Cut(name, domain.ReferenceMark)
	if s.models += modelsIn(name); err == nil && s.models > maxModels {
		err = s.refuseLast(fmt.Sprintf("must not bring the request above %d models", maxModels))
	}
	if err == nil && isFieldName(model) {
		err = s.refuseLast(fieldNameMessage)
	}
	if err == nil {
		err = s.findAny(toolOfModel(name))
	}
	if err == nil && s.allowed != nil && model != "" && !s.allowed(model) {
		s.use = toolUse{tool: model, place: s.place("")}
		return errFound
	}
	if err == nil && !own && strings.Contains(name, domain.ReferenceMark) {
		err = s.refuseLast("must not refer to a preset")
	}
	return err
}

// readText reads a string of UTF-8 with at most maxReference bytes. null counts as an empty string.
func (s *toolSearch) readText() (string, error) {
	switch s.text.Kind() {
	case '"':
		value, err := s.text.Value()
		if err != nil {
			return "", err
		}
		text, ok := rawjson.Head(value, maxReference)
		switch {
		case len(text) > maxReference:
			return "", s.refuseLast("must have at most " + strconv.Itoa(maxReference) + " bytes")
		case !ok: // some gateways drop the bytes that are none
			return "", s.refuseLast("must be UTF-8")
		}
		return text, nil
	case 'n':
		return "", s.text.Skip()
	}
	return "", s.refuse("must be a string")
}

// refuse returns an Invalid error for the next value.
func (s *toolSearch) refuse(message string) error {
	if err := s.text.Skip(); err != nil {
		return err
	}
	return s.refuseLast(message)
}

// refuseLast is refuse for the last value.
func (s *toolSearch) refuseLast(message string) error {
	place := s.place("")
	if place == "" && (s.at != "" || s.names > 0) {
		message = "a value whose place is too long to name " + message
	}
	return domain.InvalidAt(place, message+" "+s.where)
}

// visit counts the next value, and refuses it if these are too many.
func (s *toolSearch) visit() error {
	if s.visited++; s.visited > maxVisited {
		return s.refuse(fmt.Sprintf("must not bring the fields, tools and plugins above %d", maxVisited))
	}
	return nil
}

// members is allMembers, and visits each value.
func (s *toolSearch) members(read func(name string) error) error {
	return s.allMembers(func(name string) error {
		if err := s.visit(); err != nil {
			return err
		}
		return read(name)
	})
}

// allMembers calls read before each value of the next object. It cuts names that are longer than
// rawjson.MaxName. No known name is. It skips a value of another type.
func (s *toolSearch) allMembers(read func(name string) error) error {
	if s.text.Kind() != '{' {
		return s.text.Skip()
	}
	for quoted, err := range s.text.Members() {
		if err == nil {
			name, _ := rawjson.Head(quoted, rawjson.MaxName)
			s.names += len("/") + len(name)
			err = read(name)
			s.names -= len("/") + len(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// elements calls read before each element of the next array. It skips null and refuses
// other types.
func (s *toolSearch) elements(read func() error) error {
	switch s.text.Kind() {
	case '[':
	case 'n':
		return s.text.Skip()
	default:
		return s.refuse("must be an array")
	}
	for _, err := range s.text.Elements() {
		if err == nil {
			err = read()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
