package budget

// File is a file of budgets, with the baseline they are measured from.
type File struct {
	Path string
	// Command is the command line of the run, without the program; empty when
	// the run is to be given.
	Command []string
	// Exact reports whether requests must go the very ways of the baseline.
	Exact    bool
	Budgets  []Budget
	Baseline *Baseline // nil before the first update

	Text []byte // the file as it is
}

// Baseline is what values are measured from.
type Baseline struct {
	Lifecycles string // hash of what happened to each request; "" when not known
	Values     map[string]float64
	From       string // file it was read from; "" when it is in the file of the budgets
}
