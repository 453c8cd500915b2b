package domain

const presetProtected = "Preset is protected"

// guardPreset returns a Forbidden error if p is protected and the caller lacks the right to
// change it.
func (c *change) guardPreset(p Preset) error {
	if !p.Protected {
		return nil
	}
	return c.Who.require(ProtectedLabels, presetProtected)
}

// guardPresets returns a Forbidden error if the caller lacks the right, and the workspace
// has a protected preset or label. It reads presets only for a caller that lacks it.
func (c *change) guardPresets(workspaceID string) error {
	missing := c.Who.require(ProtectedLabels, "Workspace has protected presets or labels")
	if missing == nil {
		return nil
	}
	for p, err := range c.Presets(workspaceID) {
		if err != nil {
			return err
		}
		if p.Protected {
			return missing
		}
		for _, label := range p.Labels {
			if label.Protected {
				return missing
			}
		}
	}
	return nil
}

// protection returns what a change did to a protection, for the audit trail.
func protection(before, after bool) string {
	switch {
	case before == after:
		return ""
	case after:
		return "set"
	default:
		return "cleared"
	}
}
