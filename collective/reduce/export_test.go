package reduce

// The conversions, for the tests against package reference, which imports this
// package.
var (
	Widen16   = widen16
	Narrow16  = narrow16
	WidenB16  = widenB16
	NarrowB16 = narrowB16
)
