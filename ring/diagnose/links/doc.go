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
// The spread is the median absolute deviation, times 1.4826, which for normal noise is
// the standard deviation and does not grow with a few culprits (Hampel, JASA 69, 1974).
// Named is who lies both below a ratio and so many spreads below the others: the first
// keeps quiet fabrics from naming harmless differences, the second noisy ones from
// naming chance.
//
// Nobody is named by one measurement: Retests says which pairs to measure again, each
// suspect with partners that did well, and Confirm keeps the findings that still hold. Beside
// them pairs that nothing was found about are measured again: where these are slower, too,
// something else goes on, and that much is forgiven.
//
// Losses are counts and mostly zero, and pairs without a connection have no figure: there
// it is counted in which rows, columns and pairs they lie, the greatest share first.
package links
