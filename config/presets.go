package config

import (
	"time"

	"github.com/prometheus/common/model"
)

// Interactive is the built-in module that an endpoint uses without others.
const Interactive = "interactive"

// Preset is a built-in module: it is there without being written, and the file
// may change it key by key.
type Preset struct {
	// Name is the name of the module.
	Name string
	// Purpose says what the module stands for, in a few words.
	Purpose string

	shape func(*Module) // turns the defaults of all modules into its own
}

// Presets lists the built-in modules. Their objectives are published limits for
// such work: those of the Server scenario of MLPerf Inference for models of
// several sizes, and guidellm's for code completion.
func Presets() []Preset {
	return []Preset{
		{Interactive, "a short question and a short answer, as in a chat", func(m *Module) {
			m.PresetSLO = promise(2*time.Second, 200*time.Millisecond, 0) // Llama2-70B
		}},
		{"rag", "a question over retrieved documents: a long prompt that is new each time", func(m *Module) {
			m.Interval = model.Duration(time.Minute)
			m.InputTokens, m.OutputTokens = Tokens(4000), Tokens(128)
			m.PresetSLO = promise(2*time.Second, 100*time.Millisecond, 0) // Llama3.1-8B
		}},
		{"agent", "a step of an agent: a long context that is sent again with every step", func(m *Module) {
			m.Interval = model.Duration(2 * time.Minute)
			m.InputTokens, m.OutputTokens = Tokens(8000), Tokens(128)
			m.Prefix = PrefixPaired
			m.PresetSLO = promise(2*time.Second, 80*time.Millisecond, 0) // DeepSeek-R1
		}},
		{"code-completion", "the next lines of code while somebody types", func(m *Module) {
			m.InputTokens, m.OutputTokens = Tokens(1500), Tokens(32)
			m.PresetSLO = promise(0, 0, 2*time.Second)
		}},
		{"batch", "offline work: several requests at once, for throughput", func(m *Module) {
			m.Interval = model.Duration(15 * time.Minute)
			m.InputTokens, m.OutputTokens = Tokens(1000), Tokens(256)
			m.Concurrency = []int{1, 8, 32}
		}},
		{"long-context", "the first token over the length of the prompt", func(m *Module) {
			m.Interval = model.Duration(30 * time.Minute)
			m.Timeout = model.Duration(5 * time.Minute)
			m.Timeouts.FirstToken = model.Duration(4 * time.Minute)
			m.InputTokens, m.OutputTokens = Lengths{Ladder: []int{1000, 8000, 32000, 128_000}}, Tokens(32)
		}},
		{"embedding", "a batch of texts to embed or to rank", func(*Module) {}},
	}
}

// promise is an objective of 0.99 with limits, of which 0 is none.
func promise(ttft, tpot, e2e time.Duration) *SLO {
	return &SLO{
		Objective: defaultSLO().Objective,
		TTFT:      model.Duration(ttft), TPOT: model.Duration(tpot), E2E: model.Duration(e2e),
	}
}

// moduleDefaults returns the defaults of the module of that name: those of the
// built-in one, or of all others.
func moduleDefaults(name string, g Global) Module {
	m := defaultModule(g)
	for _, preset := range Presets() {
		if preset.Name == name {
			preset.shape(&m)
		}
	}
	return m
}
