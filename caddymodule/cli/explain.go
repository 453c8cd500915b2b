package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

// explained returns an action whose errors tell what to do about them. Their text is safe on a
// terminal, and never has a key.
func (t *target) explained(action func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := action(cmd, args); err != nil {
			return explain(err, t.place())
		}
		return nil
	}
}

// withAPI is explained for an action that needs the API.
func (t *target) withAPI(action func(cmd *cobra.Command, a api, args []string) error) func(*cobra.Command, []string) error {
	return t.explained(func(cmd *cobra.Command, args []string) error {
		a, err := t.api(cmd)
		if err != nil {
			return err
		}
		return action(cmd, a, args)
	})
}

// safe returns an error whose text, which may have parts of an answer, is safe on a terminal. The
// mistakes of files keep their lines.
func safe(err error) error {
	if mistakes, ok := errors.AsType[files.Errors](err); ok {
		return errors.New(terminal.EscapeText(mistakes.Error()))
	}
	return explainedError{err}
}

// place is where a request goes, and with which key. An empty workspace is that of the key.
type place struct{ server, workspace, key string }

func (t *target) place() place {
	return place{t.server, t.workspace, cmp.Or(t.keyFile, t.keyVariable)}
}

type explainedError struct{ error }

func (e explainedError) Error() string { return terminal.Escape(e.error.Error()) }

func (e explainedError) Unwrap() error { return e.error }

// explain returns err with its meaning for the one who runs the command, unless it has that.
func explain(err error, at place) error {
	if _, ok := errors.AsType[explainedError](err); !ok {
		err = meaning(err, at)
	}
	return safe(err)
}

func meaning(err error, at place) error {
	if refused, ok := errors.AsType[*client.Error](err); ok {
		switch refused.Status {
		case http.StatusUnauthorized:
			return fmt.Errorf("%s does not take the key in %s: %w", at.server, at.key, err)
		case http.StatusForbidden:
			return fmt.Errorf("the key in %s may not do that: %w", at.key, err)
		case http.StatusNotFound:
			workspace := "the workspace of the key"
			if at.workspace != "" {
				workspace = "workspace " + at.workspace
			}
			return fmt.Errorf("%w (in %s at %s)", err, workspace, at.server)
		case http.StatusPreconditionFailed:
			return fmt.Errorf("someone else changed the preset at the same time, so nothing was changed: run the command again (%w)", err)
		}
		if refused.Status >= http.StatusInternalServerError && refused.RequestID != "" {
			return fmt.Errorf("%w (X-Request-Id: %s)", err, refused.RequestID)
		}
		return err
	}
	if wrong, ok := errors.AsType[*domain.Error](err); ok && len(wrong.Issues) > 0 {
		return fmt.Errorf("%s: %s", wrong.Issues[0].Path, wrong.Issues[0].Message)
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return fmt.Errorf("%s cannot be reached, and --server names another server: %w", at.server, err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s ended the connection too early: %w", at.server, err)
	}
	return err
}
