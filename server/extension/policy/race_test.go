//go:build race

package policy

// raceEnabled: pools lose what they hold at random.
const raceEnabled = true
