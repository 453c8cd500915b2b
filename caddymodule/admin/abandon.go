package admin

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/caddy-presets/caddy-presets/storage/transfer"
)

// abandonedImport is the answer to a request to end an unfinished import.
type abandonedImport struct {
	transfer.Abandoned
	// DefaultWorkspaceError tells why the default workspace could not be looked up or made. It
	// is missing if it was not imported.
	DefaultWorkspaceError string `json:"default_workspace_error,omitempty"`
}

// abandonImport ends an unfinished import. A second request could not tell what is missing.
// So a later error is a part of the answer.
func abandonImport(r request) error {
	abandoned, err := transfer.Abandon(r.Context(), r.Store, r.Service, operator)
	if err != nil {
		return transferError(err)
	}
	a := abandonedImport{Abandoned: abandoned}
	if err := r.Service.EnsureDefaultWorkspace(r.Context()); err != nil {
		a.DefaultWorkspaceError = err.Error()
	}
	return writeJSON(r.w, http.StatusOK, a)
}

// abandonImport ends an unfinished import and prints what is missing.
func (t *client) abandonImport(to io.Writer) error {
	var a abandonedImport
	if err := t.call(http.MethodDelete, Path+"import", nil, &a); err != nil {
		return err
	}
	_, err := io.WriteString(to, describeAbandoned(a.Abandoned))
	if err == nil && a.DefaultWorkspaceError != "" {
		err = fmt.Errorf("the default workspace could not be made: %s; run caddy reload --force to make it", a.DefaultWorkspaceError)
	}
	return err
}

func describeAbandoned(a transfer.Abandoned) string {
	var text strings.Builder
	fmt.Fprintf(&text, "The import is given up. %d lines were imported and stay. The store takes changes again.\n", a.Lines)
	if a.TrailMayEnd {
		text.WriteString("Nothing but the audit trail was imported, and that may lack its end.\n")
	}
	for _, missing := range []struct {
		of    string
		count int
		names []string
	}{
		{"workspaces", a.Missing.Workspaces, a.Missing.WorkspaceSlugs},
		{"presets", a.Missing.Presets, a.Missing.PresetSlugs},
		{"keys", a.Missing.Keys, nil},
	} {
		fmt.Fprintf(&text, "missing %s: %d", missing.of, missing.count)
		separator := ": "
		for _, name := range missing.names {
			text.WriteString(separator + plain(name))
			separator = ", "
		}
		if more := missing.count - len(missing.names); more > 0 && len(missing.names) > 0 {
			fmt.Fprintf(&text, " and %d more", more)
		}
		text.WriteString("\n")
	}
	if a.Partial != "" {
		fmt.Fprintf(&text, "Preset %s may lack versions and labels, and is archived.\n", plain(a.Partial))
	}
	text.WriteString("Usage and kept answers that follow in the file are missing, too.\n")
	return text.String()
}
