package caddymodule

// presetHistory lists the changes of a preset, also of an archived one.
func presetHistory(c *call) (response, error) {
	page, err := c.readPage()
	if err != nil {
		return response{}, err
	}
	return pageOf(c.h.service.PresetHistory(c.r.Context(), c.who, c.given.workspace, c.slug(), page))
}

// workspaceHistory lists the changes of a workspace and its presets.
func workspaceHistory(c *call) (response, error) {
	page, err := c.readPage()
	if err != nil {
		return response{}, err
	}
	return pageOf(c.h.service.WorkspaceHistory(c.r.Context(), c.who, c.found.Value("workspace"), page))
}
