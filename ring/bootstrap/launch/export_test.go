package launch

import "strings"

// Contact is what a rank says of itself.
type Contact = contact

// ListOf makes a list of contacts, and the names of their hosts.
func ListOf(all []Contact) (text string, names []string, err error) {
	var list []*contact
	for i := range all {
		all[i].Rank = i
		list = append(list, &all[i])
	}
	entries, _, err := listOf(list)
	if err != nil {
		return "", nil, err
	}
	return strings.Join(entries, ","), namesOf(list, entries), nil
}
