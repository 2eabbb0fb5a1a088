// Package path finds out what the way between two addresses carries, by UDP packets of
// its own with DF set: which sizes arrive, with which DSCP and ECN, and by which source
// ports, which routers that balance load (ECMP) tell paths apart by. What arrived is told over
// another way than the one that is tested: who sends and who receives meet elsewhere.
package path
