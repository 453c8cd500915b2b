//go:build race

package badger

func init() { raceEnabled = true }
