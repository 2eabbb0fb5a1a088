//go:build nodl

package ibv

import (
	"errors"

	"ringcli/verbs"
)

func init() { verbs.Register(provider{}) }

type provider struct{}

// Name implements verbs.Provider.
func (provider) Name() string { return "ibv" }

// Capabilities implements verbs.Provider: its devices are what all others are
// compared with.
func (provider) Capabilities() verbs.Capabilities { return verbs.Capabilities{} }

// Devices implements verbs.Provider.
func (provider) Devices() ([]verbs.Device, error) {
	return nil, errors.New("this program was built static (tag nodl), without libibverbs: RDMA devices need the build that `make` makes")
}
