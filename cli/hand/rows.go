package hand

import (
	"ringcli/cli/command"
)

// Rows are what an operator or a student looks at and does by hand,
// beside the steps of a bring-up.
func Rows(h *Work) []command.Row {
	return []command.Row{statusRow(), pingRow(), countersRow(), injectRow(), h.regionRow(), postRow(), pollRow()}
}
