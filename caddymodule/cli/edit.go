package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

type editor struct {
	changer
	version, message string
	isDraft          bool
}

func editCommand() *cobra.Command {
	var e editor
	cmd := &cobra.Command{
		Use:   "edit <slug> [--version <number or label>] [--draft] [--message <text>] [--override <owner>] [--json]",
		Short: "Opens a version in an editor, and saves it as a new one",
		Long: `
Opens the settings and the prompt of the version that requests get, or of another one, in the
program of $VISUAL or $EDITOR, as a YAML file in the format of presets as files. What is saved
there becomes a new version, which requests get, unless --draft says that they do not.

Nothing is made if nothing is changed. With a mistake in the file, or if someone else changes the
preset meanwhile, the error names the file, which stays.`,
		Example: `  $ EDITOR="code --wait" caddy presets edit email-copywriter --draft --message shorter`,
		Args:    cobra.ExactArgs(1),
		RunE: e.withAPI(func(cmd *cobra.Command, a api, args []string) error {
			return e.run(cmd, a, args[0])
		}),
		ValidArgsFunction: e.completeArgs(slugs),
	}
	e.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&e.version, "version", "", "The number of the version to begin with, or a label; default: the designated version")
	flags.StringVar(&e.message, "message", "", "The reason of the new version")
	flags.BoolVar(&e.isDraft, "draft", false, "Save a draft, which serves no requests")
	completeFlag(cmd, "version", e.complete(labels))
	return takesReference(cmd, toVersionFlag)
}

func (e *editor) run(cmd *cobra.Command, a api, slug string) (err error) {
	program := strings.Fields(cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR")))
	if len(program) == 0 {
		return errors.New("there is no editor: set VISUAL or EDITOR, such as EDITOR=vi")
	}
	if err := domain.CheckMessage(e.message); err != nil && e.message != "" {
		return err
	}
	header, err := e.header()
	if err != nil {
		return err
	}
	p, response, err := a.preset(cmd.Context(), slug)
	if err != nil {
		return err
	}
	if owner := domain.ValueOr(p.ManagedBy, ""); owner != e.override && owner != "" {
		return managedError(slug, owner)
	}
	header.Set("If-Match", response.Tag())
	begin, err := a.versionOf(cmd.Context(), p, e.version)
	if err != nil {
		return err
	}
	if !begin.Dialect.Valid() {
		return fmt.Errorf("version %d is for the API %q, which this program does not know", begin.Version, begin.Dialect)
	}
	folder, err := os.MkdirTemp("", "caddy-presets-edit-") // for its owner alone
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			err = cmp.Or(err, os.RemoveAll(folder))
		}
	}()
	file, edited, err := edit(cmd, program, folder, slug, begin)
	keep := func(err error) error {
		if kept = file != ""; kept {
			fmt.Fprintf(cmd.ErrOrStderr(), "The file stays at %s\n", terminal.Escape(file))
		}
		return err
	}
	if err != nil {
		return keep(err)
	}
	if files.SameCapture(begin.Capture(), edited.Capture) {
		fmt.Fprintln(cmd.ErrOrStderr(), "Nothing is changed, so no version is made.")
		return nil
	}
	next := begin
	next.Dialect, next.Config, next.SystemPrompt, next.Template = edited.Capture.Dialect, edited.Capture.Config, edited.Capture.SystemPrompt, edited.Capture.Template
	next.Message = nil
	if e.message != "" {
		next.Message = &e.message
	}
	made, response, err := a.add(cmd.Context(), slug, next, e.isDraft, header)
	if err != nil {
		return keep(err)
	}
	sentence := fmt.Sprintf("Requests for %s get version %d, before it was %d.", slug, made.Version, p.DesignatedVersion)
	if e.isDraft {
		sentence = fmt.Sprintf("Version %d of %s is a draft. This puts it live: caddy presets designate %s %d", made.Version, slug, slug, made.Version)
	}
	return e.report(cmd, response, sentence)
}

// edit runs an editor with a version in a file, and returns the version as the file has it then. An error
// comes with the name of the file if it exists.
func edit(cmd *cobra.Command, program []string, folder, slug string, v client.Version) (file string, edited files.Version, err error) {
	const workspace = domain.DefaultWorkspaceSlug // any is right
	below := filepath.Join(folder, workspace)
	if err := os.Mkdir(below, 0o700); err != nil {
		return "", edited, err
	}
	// Beside this file, a long prompt is in the YAML file.
	beside := filepath.Join(below, slug+".md")
	if err := os.WriteFile(beside, nil, 0o600); err != nil {
		return "", edited, err
	}
	of := files.Preset{Workspace: workspace, Slug: slug, Status: domain.PresetActive, Version: files.NewVersion(v.Dialect, v.Config, v.SystemPrompt, v.Template)}
	if _, err := files.Write(folder, &files.Set{Workspaces: []files.Workspace{{Slug: workspace, Presets: []files.Preset{of}}}}); err != nil {
		return "", edited, err
	}
	file = filepath.Join(below, slug+".yaml")
	run := exec.CommandContext(cmd.Context(), program[0], append(program[1:], file)...) //nolint:gosec // the program is the user's choice
	run.Stdin, run.Stdout, run.Stderr = cmd.InOrStdin(), cmd.ErrOrStderr(), cmd.ErrOrStderr()
	if err := run.Run(); err != nil {
		return file, edited, fmt.Errorf("the editor %s failed: %w", program[0], err)
	}
	set, err := files.Read(folder)
	if err != nil {
		return file, edited, err
	}
	if len(set.Workspaces) != 1 || len(set.Workspaces[0].Presets) != 1 {
		return file, edited, errors.New("the file is gone")
	}
	p := set.Workspaces[0].Presets[0]
	if p.Name != nil || p.Description != nil || p.Status != domain.PresetActive || p.Policy != nil || len(p.Labels) > 0 || len(p.Earlier) > 0 {
		return file, edited, errors.New("the file may have a request and template alone: name, description, status, labels, policy and earlier are no parts of a version")
	}
	return file, p.Version, nil
}
