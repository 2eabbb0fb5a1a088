package devices

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ringcli/cli/command"
	"ringcli/verbs"
)

// Names lists the devices of all providers that have some.
func Names() []string {
	var list []string
	for _, d := range verbs.Devices() {
		list = append(list, d.Name())
	}
	return list
}

// Words are what a device completes to.
func Words(*cobra.Command) []string {
	return append(Names(), "auto\tshm:0 on this host, else the RDMA device that has the local address, else soft")
}

// GIDWords are what a GID index completes to, on the device that is given.
func GIDWords(cmd *cobra.Command) []string { return gidIndexes(command.FlagText(cmd, "device")) }

// gidIndexes lists the GID indexes that are in use on a device, on those of a
// provider, or on all if it is neither, with their GIDs.
func gidIndexes(device string) []string {
	hints := map[int][]string{}
	_, unknown := verbs.Find(device)
	for _, d := range verbs.Devices() {
		name := d.Name()
		if unknown == nil && name != device && !strings.HasPrefix(name, device+":") {
			continue
		}
		r, err := openReport(d)
		if err != nil {
			continue // `ringcli query` says why
		}
		for _, p := range r.Ports {
			for _, g := range p.GIDs {
				hints[g.Index] = append(hints[g.Index], fmt.Sprintf("%s %s %s", name, g.GID, g.Type))
			}
		}
	}
	var words []string
	for index, hint := range hints {
		words = append(words, fmt.Sprintf("%d\t%s", index, strings.Join(hint, ", ")))
	}
	slices.Sort(words)
	return words
}
