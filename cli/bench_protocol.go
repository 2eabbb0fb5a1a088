package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/collective"
	"ringcli/configs"
)

// protocolList is the value of a bench's --protocol: a setting's value elsewhere,
// and here several of them, which are compared.
type protocolList []collective.Protocol

func (l *protocolList) String() string  { return strings.Join(names(*l), ",") }
func (l *protocolList) Type() string    { return "list" }
func (l *protocolList) Words() []string { return names(collective.Protocols()) }
func (l *protocolList) Set(text string) error {
	var list protocolList
	for name := range strings.SplitSeq(text, ",") {
		p, err := collective.ParseProtocol(name)
		switch {
		case err != nil:
			return err
		case strings.TrimSpace(name) == "":
			return fmt.Errorf("expected a protocol, or several separated by commas, such as eager,rendezvous-write")
		case slices.Contains(list, p):
			return fmt.Errorf("expected each protocol once; %s is there twice", p)
		}
		list = append(list, p)
	}
	if len(list) > 1 && slices.Contains(list, collective.Auto) {
		return fmt.Errorf("expected auto alone: it is one of the others at each size, and what it takes is marked")
	}
	*l = list
	return nil
}

// protocolFlag declares a bench's --protocol; AddFlags leaves it alone.
func protocolFlag(fs *pflag.FlagSet) {
	setting, _ := configs.Lookup("protocol")
	list := protocolList{}
	// The default is the table's own, which is valid.
	_ = list.Set(fmt.Sprint(setting.Default))
	fs.Var(&list, setting.Name, setting.Usage+"; several, separated by commas, are compared")
}
