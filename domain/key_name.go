package domain

import "context"

// KeyName returns the name of the issued key that who has, or had. It is empty for other keys, for one
// without a name, and if the store cannot tell.
func (s *Service) KeyName(ctx context.Context, who Principal) string {
	if who.Scope == nil { // a key of the configuration, or none
		return ""
	}
	k, err := s.keyOf(ctx, who.Hash)
	if err != nil {
		return ""
	}
	return k.Name
}
