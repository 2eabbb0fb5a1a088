package session

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/tables"
	"ringcli/ring/bootstrap"
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
}

// meet finds out which ranks follow. Either all but rank 0 do, which then leads
// them, or none does.
func (s *Session) meet(ctx context.Context, m *Member) ([]introduction, error) {
	own := introduction{Follows: s.Follows, Providers: tables.Providers(m.Ring), Table: tables.Announce(s.Config, m.Ring), Inject: s.Config.String("inject")}
	if a := m.Ring.Affinity(); a != nil {
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
	return all, nil
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
