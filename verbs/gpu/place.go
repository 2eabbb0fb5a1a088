package gpu

import (
	"fmt"
	"strconv"
	"strings"

	"ringcli/verbs"
)

// Kind is whose memory it is.
type Kind uint8

const (
	Host Kind = iota // the host's
	CUDA             // a GPU of NVIDIA's
	HIP              // a GPU of AMD's
)

// Kinds are those that have a runtime.
var Kinds = []Kind{CUDA, HIP}

var words = [...]string{Host: "host", CUDA: "cuda", HIP: "hip"}

func (k Kind) String() string { return words[k] }

// Place is where memory is: on the host, or a GPU's, whose index is among those that its
// runtime shows this process.
type Place struct {
	Kind  Kind
	Index int
}

// String is "host", "cuda:0" or "hip:0".
func (p Place) String() string {
	if p.Kind == Host {
		return Host.String()
	}
	return fmt.Sprintf("%s:%d", p.Kind, p.Index)
}

// ParsePlace is of what String writes; "cuda" alone is cuda:0.
func ParsePlace(text string) (Place, error) {
	word, index, given := strings.Cut(text, ":")
	for kind, name := range words {
		if word != name || given && Kind(kind) == Host {
			continue
		}
		if !given {
			return Place{Kind: Kind(kind)}, nil
		}
		if i, err := strconv.ParseUint(index, 10, 16); err == nil {
			return Place{Kind: Kind(kind), Index: int(i)}, nil
		}
	}
	return Place{}, fmt.Errorf("memory %q: %w: expected host, or a GPU such as cuda:0 or hip:0 (`ringcli devices --gpus` lists them)", text, verbs.ErrInvalid)
}
