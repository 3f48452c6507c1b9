package schedule

// unlisted is the index of a job that is not in the agenda.
const unlisted = -1

// agenda is a heap of jobs by their next event, for container/heap.
type agenda []*job

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].event() < a[j].event() }

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

// Push is for container/heap.
func (a *agenda) Push(x any) {
	j := x.(*job)
	j.index = len(*a)
	*a = append(*a, j)
}

// Pop is for container/heap.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	j := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	j.index = unlisted
	return j
}
