package config

// Traffic has a module ask what users ask: requests whose lengths are drawn from what
// the servers of the endpoint counted lately.
type Traffic struct {
	// MaxInputTokens bounds the length of prompts, as a budget does: longer
	// ones are cut to it.
	MaxInputTokens int `yaml:"max_input_tokens" default:"4096" range:"[1,2000000]"`
	// MaxOutputTokens bounds the length of answers in the same way.
	MaxOutputTokens int `yaml:"max_output_tokens" default:"256" range:"[1,100000]"`
}

// MaxInput returns how many tokens a prompt that is made to length is to have at most.
func (m *Module) MaxInput() int {
	if m.Traffic == nil {
		return m.InputTokens.Max()
	}
	return max(m.InputTokens.Max(), m.Traffic.MaxInputTokens)
}

// MaxOutput returns how many tokens an answer may have at most.
func (m *Module) MaxOutput() int {
	if m.Traffic == nil {
		return m.OutputTokens.Max()
	}
	return max(m.OutputTokens.Max(), m.Traffic.MaxOutputTokens)
}

// validateTraffic rejects keys that say other lengths than those of users.
func (m *Module) validateTraffic(r *report, p path) {
	if m.Traffic == nil {
		return
	}
	at := p.key("traffic")
	if a := m.Ask(); !a.ToLength() {
		r.errorf(at, "excludes %s", a.Key)
	} else if m.Prefix != PrefixCold {
		r.errorf(at, "excludes prefix: %s", m.Prefix)
	}
	if len(m.Concurrency) > 0 {
		r.errorf(at, "excludes concurrency")
	}
	if several(m.InputTokens) {
		r.errorf(p.key("input_tokens"), "several lengths beside traffic; want the one to ask until the traffic is known")
	}
	if several(m.OutputTokens) {
		r.errorf(p.key("output_tokens"), "several lengths beside traffic; want the one to ask until the traffic is known")
	}
}
