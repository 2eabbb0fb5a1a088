package launch

// Contact is what a rank says of itself.
type Contact = contact

// ListOf makes a list of contacts.
func ListOf(all []Contact) (string, error) {
	var list []*contact
	for i := range all {
		all[i].Rank = i
		list = append(list, &all[i])
	}
	return listOf(list)
}
