package ibv

import "ringcli/verbs"

func init() { verbs.Register(provider{}) }

type provider struct{}

func (provider) Name() string { return "ibv" }

// Capabilities implements verbs.Provider: its devices are what all others are
// compared with.
func (provider) Capabilities() verbs.Capabilities { return verbs.Capabilities{} }
