package result

// Affinity is by what a balancer can keep the turns of a conversation together. The
// set is closed: it is a label value.
type Affinity string

// The affinities.
const (
	// AffinitySession is a header with the same value in all turns.
	AffinitySession Affinity = "session"
	// AffinityNone is no such header: the prompts alone begin alike.
	AffinityNone Affinity = "none"
)

// Affinities lists the closed set.
func Affinities() []Affinity { return []Affinity{AffinityNone, AffinitySession} }

// Turn is a turn of a conversation; nil is a request outside of conversations.
type Turn struct {
	// Number counts from 1.
	Number int `json:"number"`
	// Affinity is that of all turns of the conversation.
	Affinity Affinity `json:"affinity"`
	// Replica is the replica that answered, as the header of the reply names it;
	// bounded, "" is not known.
	Replica string `json:"replica,omitempty"`
}

// Index returns the number of the turn; 0 outside of conversations.
func (t *Turn) Index() int {
	if t == nil {
		return 0
	}
	return t.Number
}
