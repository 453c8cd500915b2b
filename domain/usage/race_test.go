//go:build race

package usage_test

func init() { raceEnabled = true }
