package caddymodule

import (
	"github.com/caddy-presets/caddy-presets/domain"
)

// listBudgets lists the budgets of a workspace. They are at most four, so there are no pages.
func listBudgets(c *call) (response, error) {
	return c.answerObject(c.h.service.Budgets(c.r.Context(), c.who, c.found.Value("workspace")))
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
