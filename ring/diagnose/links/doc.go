// Package links tells from what was measured between the ranks of a ring which sender,
// receiver, pair or group is at fault. It is pure: figures in, findings out.
//
// # How culprits are told apart
//
// A figure of a directed pair, as its logarithm, is taken for a sum:
//
//	log figure = typical + sender + receiver + group to group + rest
//
// since what slows a node, a cable or a path down does so by a factor. The effects are
// found by median polish (Tukey, Exploratory Data Analysis, 1977, chapter 11): medians
// of rows and columns are taken out by turns. A mean would smear one bad pair over all
// that have an end in common with it; a median leaves it where it is, as long as most of
// a row is well. Faults only ever lower a figure, and a thin link between two racks
// lowers more than half of each row: the first sweeps therefore take the upper quartile
// out, what is low after them is set aside, and the medians are those of the rest.
//
// Groups come from the list. Without any they are looked for in what is low after the
// first sweeps: senders that are slow to the same receivers, two or more of each.
//
// The sum is that of a path that is slow by nature. Of a slow port and a thin link one after the
// other the slower one alone is seen: a port at 0.6 behind a link that leaves each pair 0.5 makes
// half of a row 0.6 and half of it 0.5, of which a median says nothing. So groups are those that
// healthy ranks make, and the effect of a rank is taken of its pairs outside of them, as long as
// there are three. To which group a rank of a slow port belongs is told by the sign of its pairs to
// it against the others (a test of shares, since what shares a link is not normal), by the other
// direction, or, of two groups that are all ranks, by the rest. What no figure can tell is a slow pair
// behind a link that is thinner still.
//
// The spread is the median absolute deviation, times 1.4826, which for normal noise is
// the standard deviation and does not grow with a few culprits (Hampel, JASA 69, 1974).
// Named is who lies both below a ratio and so many spreads below the others: the first
// keeps quiet fabrics from naming harmless differences, the second noisy ones from
// naming chance.
//
// Nobody is named by one measurement: Retests says which pairs to measure again, each
// suspect with partners that did well, and Confirm keeps the findings that still hold. Beside
// them pairs that nothing was found about are measured again: where these are slower, too,
// something else goes on, and that much is forgiven. Ranks are not measured across groups that
// are slow to each other. Pairs are measured one at a time, as soon as there are few enough: what
// is slow beside others may share something with them, what is slow alone is not. Between two groups
// they are held against others between them that were measured one at a time, too: the link that is
// thin for many may be wide for one. There is room for 64 each time: many are measured at once before,
// by which chance is told, and what the room is not enough for in the end, the mildest, is not named.
//
// Losses are counts and mostly zero, and pairs without a connection have no figure: there
// it is counted in which rows, columns and pairs they lie, the greatest share first.
//
// # What it takes
//
// All 26,796 pairs of 232 ranks, of which five are at fault, take 32 s from the first round to
// the verdict: 231 rounds of 100 ms and 35 of suspects, with a barrier after each. That is
// simulated (TestTimeOfMesh with LINKS_SEEDS=232:1): pairs take their time, and the parts of a
// barrier go round the ring as messages under a virtual clock, 30 us from rank to rank and 50 us
// and more to be handled there. A published design (cluster-readiness-engine, ADR-055) reckons
// with 19 hours for a test of each pair, started one after the other, and with 28 minutes by
// tests of groups, which assume that faults are those of nodes.
//
// The verdict of 1,000 ranks, of a million figures, takes each rank 0.8 s of a CPU: 0.1 to put in
// order what was told, 0.55 to judge it, and 0.05 for each of the four confirmations; and 94 MiB
// beside the 153 that the ranks have told each other.
package links
