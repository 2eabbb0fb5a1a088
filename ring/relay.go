package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"ringcli/ring/bootstrap"
)

// askFarEnd asks any rank for its end of a mesh edge. The question goes round the
// ring: a rank that it is not for asks the next one.
const askFarEnd = "far-end"

// farEnd says whose end is meant, and of the edge to whom.
type farEnd struct {
	Of int `json:"of"`
	To int `json:"to"`
}

func init() { answerers[askFarEnd] = (*question).farEnd }

func (q *question) farEnd(ctx context.Context) (any, error) {
	r := q.r
	var asked farEnd
	if err := json.Unmarshal(q.payload, &asked); err != nil || asked.Of < 0 || asked.Of >= len(r.nodes) || asked.To == r.rank {
		return nil, fmt.Errorf("%s cannot read the question %s: do all ranks run the same version?", r.nodeName(r.rank), q.payload)
	}
	if asked.Of != r.rank {
		end, err := ask[endAnswer](ctx, r, q.side.Opposite(), askFarEnd, asked)
		var answer *bootstrap.AnswerError
		if errors.As(err, &answer) {
			err = errors.New(answer.Text) // as it was said
		}
		return end, err
	}
	r.mu.Lock()
	e := r.mesh.to(asked.To)
	r.mu.Unlock()
	if e == nil {
		return nil, fmt.Errorf("%s has no mesh edge to rank %d", r.nodeName(r.rank), asked.To)
	}
	return ownEndOf(r, e.ID)
}

// askFar asks the peer of a mesh edge for its end, by the shorter way.
func askFar(ctx context.Context, r *Ring, id EdgeID) (endAnswer, error) {
	r.mu.Lock()
	e := r.Edge(id)
	r.mu.Unlock()
	if e == nil {
		return endAnswer{}, fmt.Errorf("there is no mesh edge at side %d", id)
	}
	n, peer, way := len(r.nodes), e.Peer, Right
	if toRight := (peer - r.rank + n) % n; toRight > n/2 {
		way = Left
	}
	end, err := ask[endAnswer](ctx, r, way, askFarEnd, farEnd{Of: peer, To: r.rank})
	var answer *bootstrap.AnswerError
	if errors.As(err, &answer) {
		answer.Rank = peer // the rank that was asked, though a neighbour told
	}
	return end, err
}
