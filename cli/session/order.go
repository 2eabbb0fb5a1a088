package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/tables"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/oob"
	"ringcli/trace"
)

// FollowerPatience is how long a follower waits for a ring to come up: its
// leader may be a person who starts the others first, or thinks about what went
// wrong.
const FollowerPatience = 24 * time.Hour

// Order is what a leader tells its followers, over the control ring.
type Order struct {
	Do    string   `json:"do"`
	Words []string `json:"words,omitempty"` // of OrderRun: a command with all that it is run with
	// Group is of OrderAgain: which of the ranks the next ring has; nil stands for all.
	Group *bootstrap.Group `json:"group,omitempty"`
}

// End is the order to followers whose leader is done.
var End = Order{Do: OrderEnd}

// The orders.
const (
	OrderRun   = "run"
	OrderAgain = "again" // leave this ring and join the next
	OrderEnd   = "end"
)

// introduction is what a rank says of itself to the others, once.
type introduction struct {
	Follows   bool                 `json:"follows"`
	Providers []string             `json:"providers"`       // of its edges
	CPU       *int                 `json:"cpu,omitempty"`   // that it polls on, if that is settled
	Table     *tables.Announcement `json:"table,omitempty"` // rank 0's
	Inject    string               `json:"inject"`          // the setting
	Version   string               `json:"version"`         // of the program
}

// meet finds out which ranks follow. Either all but rank 0 do, which then leads
// them, or none does.
func (s *Session) meet(ctx context.Context, m *Member) ([]introduction, error) {
	own := introduction{Follows: s.Follows, Providers: tables.Providers(m.Ring), Table: tables.Announce(s.Config, m.Ring), Inject: s.Config.String("inject"), Version: s.Version}
	if a := m.Ring.Host().Affinity(); a != nil {
		own.CPU = new(a.CPU())
	}
	all, err := Share(ctx, m, own)
	if err != nil {
		return nil, err
	}
	if all[0].Follows {
		return nil, exit.Sharedf(exit.Usage, "rank 0 follows: expected it to lead; --follow is for the other ranks")
	}
	followers := 0
	for _, i := range all {
		if i.Follows {
			followers++
		}
	}
	if followers > 0 && followers < len(all)-1 {
		return nil, exit.Sharedf(exit.Usage, "%d of %d ranks follow: expected all but rank 0, or none", followers, len(all))
	}
	s.Leads = followers > 0 && m.Ring.Rank() == 0
	if text := versions(all); text != "" && m.Ring.Rank() == 0 {
		trace.Warn(trace.Bootstrap, text)
	}
	return all, nil
}

// versions tells of ranks that run different versions of the program; "" if none do.
func versions(all []introduction) string {
	ranks := map[string][]int{}
	for rank, i := range all {
		ranks[i.Version] = append(ranks[i.Version], rank)
	}
	if len(ranks) < 2 {
		return ""
	}
	var texts []string
	for version, of := range ranks {
		texts = append(texts, fmt.Sprintf("%q at %s", cmp.Or(version, "unknown"), calls.Ranks(of)))
	}
	slices.Sort(texts)
	return fmt.Sprintf("different versions of ringcli: %s: they speak the same version of the bootstrap protocol, %d, which is what must match; "+
		"what is new in one the others lack: install the same on all hosts", strings.Join(texts, ", "), oob.Version)
}

// Order sends an order to all followers.
func (s *Session) Order(ctx context.Context, o Order) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("order %q: %w", o.Do, err)
	}
	_, err = s.Ring.Broadcast(ctx, data)
	return err
}
