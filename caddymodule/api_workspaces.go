package caddymodule

import (
	"net/http"
	"strconv"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/namelist"
	"github.com/caddy-presets/caddy-presets/domain"
)

// rightToWorkspaces stands among the rights of a key that may create workspaces.
const rightToWorkspaces = "workspaces"

// listWorkspaces also tells what the key may do, so that a client need not find out by a 403.
func listWorkspaces(c *call) (response, error) {
	var rights []string
	for _, right := range c.who.Rights() {
		rights = append(rights, string(right))
	}
	if c.who.CheckManagementOfAll() == nil {
		rights = append(rights, rightToWorkspaces)
	}
	c.header.Set("X-Preset-Rights", namelist.Of(rights))
	return pageOf(c.h.service.Workspaces(c.r.Context(), c.who, c.given.page))
}

func createWorkspace(c *call) (response, error) {
	var in domain.WorkspacePatch
	if err := c.decode(&in); err != nil {
		return response{}, err
	}
	c.inert = c.h.content.Inert(&in)
	a, err := c.answerChange(c.h.service.CreateWorkspace(c.r.Context(), c.write(), in))
	a.status = http.StatusCreated
	return a, err
}

func getWorkspace(c *call) (response, error) {
	return c.answerObject(c.h.service.Workspace(c.r.Context(), c.who, c.found.Value("workspace")))
}

func updateWorkspace(c *call) (response, error) {
	var patch domain.WorkspacePatch
	if err := c.decode(&patch); err != nil {
		return response{}, err
	}
	c.inert = c.h.content.Inert(&patch)
	return c.answerChange(c.h.service.UpdateWorkspace(c.r.Context(), c.write(), c.found.Value("workspace"), patch, c.h.live.Keys()))
}

func deleteWorkspace(c *call) (response, error) {
	isConfirmed, err := c.given.query.Flag("confirm_default_workspace_deletion")
	if err != nil {
		return response{}, err
	}
	return c.answerRemoval(c.h.service.DeleteWorkspace(c.r.Context(), c.write(), c.found.Value("workspace"), domain.WorkspaceDeletion{
		ConfirmDefault: isConfirmed != nil && *isConfirmed,
		Configured:     c.h.live.Keys(),
	}))
}

// presetHistory lists the changes of a preset, also of an archived one.
func presetHistory(c *call) (response, error) {
	return pageOf(c.h.service.PresetHistory(c.r.Context(), c.who, c.given.workspace, c.slug(), c.given.page))
}

// workspaceHistory lists the changes of a workspace and its presets.
func workspaceHistory(c *call) (response, error) {
	return pageOf(c.h.service.WorkspaceHistory(c.r.Context(), c.who, c.found.Value("workspace"), c.given.page))
}

// listBudgets lists the budgets of a workspace with what is spent. They are at most four, so there are no pages.
func listBudgets(c *call) (response, error) {
	list, err := c.h.service.Budgets(c.r.Context(), c.who, c.found.Value("workspace"), func(r domain.Reader, workspaceID string) func(domain.Interval) float64 {
		spent, err := c.h.shared.quota.Spent(r, workspaceID, c.start)
		if err != nil {
			return nil // a list without it is better than none
		}
		return spent.Of
	})
	list.WorkspaceID = "" // as in other lists
	if why := c.h.moneyNotHeld(); why != "" && err == nil {
		list.JSON = strconv.AppendQuote(append(list.JSON, `,"limit_notice":`...), why)
		list.Tag = domain.Tag(list.JSON)
	}
	return c.answerObject(list, err)
}

func getBudget(c *call) (response, error) {
	interval, err := domain.ReadInterval(c.found.Value("interval"))
	if err != nil {
		return response{}, err
	}
	return c.answerObject(c.h.service.Budget(c.r.Context(), c.who, c.found.Value("workspace"), interval))
}

func putBudget(c *call) (response, error) {
	interval, err := domain.ReadInterval(c.found.Value("interval"))
	if err != nil {
		return response{}, err
	}
	var patch domain.BudgetPatch
	if err := c.decode(&patch); err != nil {
		return response{}, err
	}
	return c.answerChange(c.h.service.PutBudget(c.r.Context(), c.write(), c.found.Value("workspace"), interval, patch))
}

func deleteBudget(c *call) (response, error) {
	interval, err := domain.ReadInterval(c.found.Value("interval"))
	if err != nil {
		return response{}, err
	}
	return c.answerRemoval(c.h.service.DeleteBudget(c.r.Context(), c.write(), c.found.Value("workspace"), interval))
}
