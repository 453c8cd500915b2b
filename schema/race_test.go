//go:build race

package schema_test

func init() { raceEnabled = true }
