//go:build nodl

package launch

import (
	"context"

	"ringcli/configs/usage"
)

func openPMIx(context.Context) (Launcher, error) {
	return nil, usage.Errorf("this program was built static (tag nodl), without libpmix: expected --list, --master-addr, or mpirun and srun --mpi=pmi2 of another kind")
}
