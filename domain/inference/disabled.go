package inference

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// checkUnresolved is checkTools for a request that names no preset. A workspace that does
// not exist has disabled nothing. While the store is unavailable, a request passes if it
// certainly uses no server tool.
func (r *Resolver) checkUnresolved(ctx context.Context, who domain.Principal, sent Request) error {
	workspace, err := r.workspace(ctx, who)
	switch {
	case domain.KindOf(err) == domain.NotFound:
		return nil
	case errors.Is(err, domain.ErrUnavailable) && !sent.OtherType && checkFields(sent, "") == nil && !mayUseServerTool(sent.Body):
		return nil
	case err != nil:
		return err
	}
	return workspace.checkTools(Body{sent.Body}, sent)
}

// CheckUnresolvedRoute returns a Forbidden error if the workspace of who has disabled any
// server tool. It is for routes whose requests are not searched, since these could use one.
// A workspace that does not exist has disabled nothing.
func (r *Resolver) CheckUnresolvedRoute(ctx context.Context, who domain.Principal) error {
	workspace, err := r.workspace(ctx, who)
	switch {
	case domain.KindOf(err) == domain.NotFound:
		return nil
	case err == nil && len(workspace.disabledTools) > 0:
		return &domain.Error{Kind: domain.Forbidden, Code: domain.ToolDisabled, Message: "This route cannot be used in a workspace where server tools are disabled"}
	}
	return err
}

// checkTools returns a Forbidden error if body uses a server tool that the workspace has
// disabled. It returns an Invalid error if that cannot be determined. body was made from
// sent.
func (w *workspaceDefaults) checkTools(body Body, sent Request) error {
	if len(w.disabledTools) == 0 {
		return nil
	}
	if err := checkReadable(sent, whereDisabled); err != nil {
		return err
	}
	use, err := usedServerTool(body.Bytes(), w.disabledTools)
	if err != nil {
		return unreadable(err, whereDisabled)
	}
	if use.tool == "" {
		return nil
	}
	disabled := &domain.Error{Kind: domain.Forbidden, Code: domain.ToolDisabled, Message: "Server tool " + use.tool + " is disabled in this workspace"}
	if use, _ := usedServerTool(sent.Body, []string{use.tool}); use.place != "" {
		disabled.Issues = []domain.Issue{{Path: use.place, Message: "is disabled in this workspace"}}
		if use.brought {
			disabled.Issues[0].Message = "uses " + use.tool + " unless it is given other tools, and that is disabled in this workspace"
		}
	}
	return disabled
}

// A body is searched where one of these applies. Errors end in it.
const (
	whereDisabled = "where server tools are disabled"
	whereLimited  = "where the key is limited to some models"

	whereLimitedByPolicy = "where the preset's policy limits models"
)

// The fields of a request are checked where one of the above or one of these applies.
const (
	whereRequired = "where the key requires a preset"
	wherePolicy   = "where the preset has a policy"
)

// checkReadable returns an Invalid error if a gateway could read other fields in a request
// than a search of its body.
func checkReadable(sent Request, where string) error {
	if sent.OtherType {
		return domain.InvalidAt("content-type", "must be application/json, with no parameter but charset=utf-8, "+where)
	}
	return checkFields(sent, where)
}

// checkFields returns an Invalid error if a gateway could read other fields in a request than we
// do: in its query string, or in a body that is not UTF-8 where words are compared. Some gateways
// drop the bytes that are none, or halves of characters.
func checkFields(sent Request, where string) error {
	if at := rawjson.FindNotUTF8(sent.Body, "type", "role"); at >= 0 {
		return domain.InvalidAt("", fmt.Sprintf("has a name, type or role that is not UTF-8 at byte %d, which it must be %s", at, where))
	}
	return checkQuery(sent.Query, where)
}

// checkQuery returns an Invalid error if a query string has a field of a request. LiteLLM
// takes the model from there, before that of the body.
func checkQuery(query, where string) error {
	if query == "" {
		return nil
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return domain.InvalidAt("query", "is malformed, which it must not be "+where)
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		field, _, _ := strings.Cut(name, "[") // some gateways read "model[]", too
		if field = foldName(strings.TrimSpace(field)); isRequestField(field) {
			return domain.InvalidAt("query", field+" must be in the body "+where)
		}
	}
	return nil
}

// isRequestField reports whether a folded name is that of a setting, such as the model, the
// tools or the prompt.
func isRequestField(name string) bool {
	return isRuled(name) || isForPresets(name) || slices.Contains(overridingFields, name)
}

// unreadable returns the Invalid error for an error of a search.
func unreadable(err error, where string) error {
	if shape, misshapen := errors.AsType[*domain.Error](err); misshapen {
		return shape
	}
	return domain.InvalidAt("", "is not JSON that can be read, which it must be "+where)
}

// maxPlace bounds the JSON Pointer in an error, in bytes, because tools can be nested
// deeply.
const maxPlace = 256

// toolUse is the use of a server tool by a request. If tool is empty, there is no use.
type toolUse struct {
	tool string
	// place is the JSON Pointer of the use, empty if it has more than maxPlace bytes. brought
	// is set if another tool uses the tool there by default.
	place   string
	brought bool
}

// usedServerTool is findServerTool for some server tools.
func usedServerTool(body []byte, some []string) (toolUse, error) {
	return findServerTool(body, func(tool string) bool { return slices.Contains(some, tool) })
}

// mayUseServerTool reports whether a request uses a tool that a workspace can disable. It
// also returns true if the request cannot be read.
func mayUseServerTool(body []byte) bool {
	use, err := findServerTool(body, isServerTool)
	return use.tool != "" || err != nil
}

// haveServerTool is mayUseServerTool for the list of tools of a request.
func haveServerTool(tools []byte) bool {
	s := &toolSearch{text: rawjson.New(tools), wanted: isServerTool}
	return s.elements(s.readTool) != nil
}

// hasToolPlugin is mayUseServerTool for the plugins of a request. It may have none.
func hasToolPlugin(plugins []byte) bool {
	if plugins == nil {
		return false
	}
	s := &toolSearch{text: rawjson.New(plugins), wanted: isServerTool}
	return s.elements(s.readPlugin) != nil
}

func isServerTool(tool string) bool { return strings.HasPrefix(tool, vendorNamespace) }

// findServerTool returns the first use of a wanted server tool by a request of any dialect.
// It knows all spellings in serverTools. A use can be a tool, also one of another tool, of
// a plugin or of an input item. It can also be a tool choice, a plugin, a field or the name
// of a model. The error is an *Error if one of these places has a value of the wrong type.
// It is another error if body is not JSON. A gateway may accept either.
//
// All repeated members count, and names in any letter case, because gateways treat these
// differently.
func findServerTool(body []byte, wanted func(tool string) bool) (toolUse, error) {
	return (&toolSearch{wanted: wanted, where: whereDisabled}).search(body)
}

// findModel returns the first model of a request that is not allowed, and its place, see
// toolUse. It returns "" if there is none. It looks where findServerTool does. The text before
// a reference to a preset is the name of a model, too.
func findModel(body []byte, allowed func(model string) bool) (place, model string, err error) {
	s := &toolSearch{wanted: noTool, where: whereLimited, allowed: allowed}
	use, err := s.search(body)
	return use.place, use.tool, err
}

// findModelOfPlugin is findModel for a plugin at a place, under a policy. A very long place
// is cut to that of the plugin.
func findModelOfPlugin(plugin []byte, at string, allowed func(model string) bool) (place string, err error) {
	s := &toolSearch{text: rawjson.New(plugin), at: at, wanted: noTool, where: whereLimitedByPolicy, allowed: allowed}
	if err := s.readPlugin(); err != nil && !errors.Is(err, errFound) {
		return "", err
	}
	if s.use.tool != "" && s.use.place == "" {
		return at, nil
	}
	return s.use.place, nil
}

func noTool(string) bool { return false }
