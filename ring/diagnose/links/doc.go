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
// Groups come from the list or from --groups. Without them, slow pairs that are as many as the ranks
// become one suspect: they share something.
//
// The sum is that of a path that is slow by nature. Of a slow port and a thin link one after the
// other the slower one alone is seen. So the effect of groups is that of their healthy ranks, the
// effect of a rank is taken of its pairs outside of slow groups, as long as there are three, and
// no pair between slow groups is called slow.
//
// The spread is the median absolute deviation, times 1.4826, which for normal noise is
// the standard deviation and does not grow with a few culprits (Hampel, JASA 69, 1974).
// Named is who lies both below a ratio and so many spreads below the others: the first
// keeps quiet fabrics from naming harmless differences, the second noisy ones from
// naming chance.
//
// No rank or pair is named by one measurement. Suspects are measured again three times, with partners
// that did well, and beside controls, pairs that nothing was found about: load that makes the
// controls worse is taken out. Of healthy pairs some thousands in a million are disturbed once, a
// few dozen twice, and none four times. Up to 64 suspected pairs are measured one at a time: pairs that
// are slow at the same time may share something, a pair that is slow alone does not. Ranks are not
// measured across groups that are slow to each other.
//
// Where CPUs move the data, three measurements in a row may each be slow by chance. Suspects then
// take turns with controls that share a rank with them (trials). A suspect that does well once is
// dropped. It is named if its measurements are bad so often that the controls rule out chance.
//
// Losses are counts and mostly zero, and pairs without a connection have no figure: there
// it is counted in which rows, columns and pairs they lie, the greatest share first.
//
// # What it takes
//
// All 26,796 pairs of 232 ranks take 231 rounds of 100 ms and a barrier after each, and suspects
// some dozens more: half a minute. A published design (cluster-readiness-engine, ADR-055) estimates
// 19 hours for a test of each pair, started one after the other, and 28 minutes by tests of groups,
// which assume that faults are those of nodes.
package links
