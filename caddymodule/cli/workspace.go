package cli

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/domain"
)

func workspaceCommand() *cobra.Command {
	workspace := &cobra.Command{Use: "workspace <command>", Short: "Lists and creates workspaces", Long: "\nLists and creates workspaces, which separate presets and keys."}
	workspace.AddCommand(workspaceListCommand(), workspaceCreateCommand())
	RefuseUnknown(workspace)
	return workspace
}

func workspaceListCommand() *cobra.Command {
	var to target
	list := &cobra.Command{
		Use:   "list [--json]",
		Short: "Lists the workspaces that the key reaches",
		Long: `
Lists the workspaces that the management key reaches, the oldest first.`,
		Args: cobra.NoArgs,
		RunE: to.withAPI(func(cmd *cobra.Command, a api, _ []string) error {
			all := a.Elements(cmd.Context(), "/workspaces", nil)
			return printList(cmd, to.asJSON, all, []string{"SLUG", "ID", "CREATED", "NAME", "DESCRIPTION"}, func(w client.Workspace) []string {
				return []string{w.Slug, w.ID, timeText(w.CreatedAt), w.Name, domain.ValueOr(w.Description, "")}
			})
		}),
	}
	to.managementFlags(list)
	return list
}

func workspaceCreateCommand() *cobra.Command {
	var to target
	var name, description string
	create := &cobra.Command{
		Use:   "create <slug> [--name <text>] [--description <text>] [--json]",
		Short: "Creates a workspace",
		Long: `
Creates a workspace. Its name is its slug, unless --name gives one. The key must reach all
workspaces. Keys for the new one come from "caddy presets key create --workspace <slug>".`,
		Args: cobra.ExactArgs(1),
		RunE: to.withAPI(func(cmd *cobra.Command, a api, args []string) error {
			body := map[string]string{"slug": args[0], "name": args[0]}
			if name != "" {
				body["name"] = name
			}
			if description != "" {
				body["description"] = description
			}
			response, err := a.change(cmd.Context(), client.Request{Method: http.MethodPost, Path: "/workspaces"}, body)
			if err != nil {
				return err
			}
			return to.report(cmd, response, fmt.Sprintf("Workspace %s is created. --workspace %s names it.", args[0], args[0]))
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	to.managementFlags(create)
	create.Flags().StringVar(&name, "name", "", "The name that lists show; default: the slug")
	create.Flags().StringVar(&description, "description", "", "What the workspace is for")
	return create
}
