//go:build nodl

package ibv

import (
	"errors"

	"ringcli/verbs"
)

func (provider) Devices() ([]verbs.Device, error) {
	return nil, errors.New("this program was built static (tag nodl), without libibverbs: RDMA devices need the build that `make` makes")
}
