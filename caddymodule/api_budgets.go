package caddymodule

import (
	"strconv"

	"github.com/caddy-presets/caddy-presets/domain"
)

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
