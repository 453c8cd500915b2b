package domain

// KeyKind is the permitted use of a key (specification, "Authentication").
type KeyKind string

const (
	// ManagementKey may manage workspaces and presets, and never infers.
	ManagementKey KeyKind = "management"
	// InferenceKey sends inference requests, in one workspace.
	InferenceKey KeyKind = "inference"
)

// Valid reports whether k is one of the two kinds.
func (k KeyKind) Valid() bool { return k == ManagementKey || k == InferenceKey }

// Principal is the sender of a request, known by its key. It never holds the secret.
type Principal struct {
	// KeyID names the key in logs and records. A key of the configuration has a number,
	// which another key may have in another configuration.
	KeyID string
	// Hash is the hash of the key's secret. No two keys share it. It is zero for the
	// server itself.
	Hash KeyHash
	// UserID is the key's user. It is never empty.
	UserID string
	// Kind decides what the key may do.
	Kind KeyKind
	// WorkspaceID is the workspace the key acts in. If it is empty, WorkspaceSlug names the
	// workspace. If both are empty, it is the default one.
	WorkspaceID string
	// WorkspaceSlug is the workspace of a key from the configuration, which
	// may be written before the workspace exists.
	WorkspaceSlug string
	// Scope has the limits and the rights of an issued key. It is never changed. Nil, as
	// for a key of the configuration, limits nothing and stands for all rights.
	Scope *Scope
}

// WorkspaceRef returns the workspace that p acts in, by id or by slug.
func (p Principal) WorkspaceRef() (id, slug string) {
	switch {
	case p.WorkspaceID != "":
		return p.WorkspaceID, ""
	case p.WorkspaceSlug != "":
		return "", p.WorkspaceSlug
	default:
		return "", DefaultWorkspaceSlug
	}
}

// errOnlyManagement is the specification's answer to a key that lacks the
// permission ("Authentication", items 2 and 3).
func errOnlyManagement() error {
	return &Error{Kind: Forbidden, Message: "Only management keys can perform this operation"}
}

// CheckInference returns a Forbidden error for a management key. Clients that call models
// should not have one.
func (p Principal) CheckInference() error {
	if p.Kind == ManagementKey {
		return &Error{Kind: Forbidden, Message: "Management keys cannot be used for inference"}
	}
	return nil
}

// CheckManagement returns a Forbidden error unless p has a management key.
func (p Principal) CheckManagement() error {
	if p.Kind != ManagementKey {
		return errOnlyManagement()
	}
	return nil
}
