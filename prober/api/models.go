package api

import (
	"fmt"
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

const (
	maxModels    = 10_000 // models that are read of one list
	maxModelName = 256    // bytes of a model's name
)

// ModelInfo is a model that a server lists.
type ModelInfo struct {
	ID      string // the name to ask for
	OwnedBy string // the owner's name, often that of the engine; "" is not known
	// Parent is the model that this one is an adapter of, as vLLM lists those of LoRA; "" is none.
	Parent string
	// MaxModelLen is the longest context in tokens, prompt and answer
	// together, as this server runs the model; Unknown is not listed.
	MaxModelLen int
	// Retires is when the model is said to end, in Unix seconds, as the server writes it; 0 is not listed.
	Retires int64
}

// ParseModels reads the reply to GET /v1/models, at most 10,000 models of it. A name that cannot be asked for (empty,
// over 256 bytes, not UTF-8) is left out. The error is ErrProtocol where the body is no list of models.
func ParseModels(body []byte) ([]ModelInfo, error) {
	return parseModelList(body, "data", func(m *fastjson.Value) ModelInfo {
		return ModelInfo{
			ID:      string(m.GetStringBytes("id")),
			OwnedBy: bounded(m.GetStringBytes("owned_by")),
			Parent:  bounded(m.GetStringBytes("parent")),
			// vLLM and SGLang; Dynamo and Groq; llama.cpp, whose n_ctx_train is another thing.
			MaxModelLen: known(count(m.Get("max_model_len")), count(m.Get("context_window")), count(m.Get("meta", "n_ctx"))),
			Retires:     retirementIn(m),
		}
	})
}

// BaseModels returns the models that are no adapters of others, each name once; all of them where each is an adapter.
func BaseModels(models []ModelInfo) []ModelInfo {
	var all, base []ModelInfo
	seen := make(map[string]bool, len(models))
	for _, m := range models {
		if seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		all = append(all, m)
		if m.Parent == "" || m.Parent == m.ID {
			base = append(base, m)
		}
	}
	if len(base) == 0 {
		return all
	}
	return base
}

// parseModelList reads the list that the object in body has under key. Of each
// element read makes a model; one whose ID cannot be asked for is left out.
func parseModelList(body []byte, key string, read func(*fastjson.Value) ModelInfo) ([]ModelInfo, error) {
	v, err := parseJSON(new(fastjson.Parser), body)
	if err != nil {
		return nil, fmt.Errorf("read list of models: %w", err)
	}
	list := v.Get(key)
	if list == nil || list.Type() != fastjson.TypeArray && list.Type() != fastjson.TypeNull {
		return nil, fmt.Errorf("read list of models: %w: %s", ErrProtocol, bounded(body))
	}
	var models []ModelInfo
	for _, m := range list.GetArray() {
		if model := read(m); usableName(model.ID) && len(models) < maxModels {
			models = append(models, model)
		}
	}
	return models, nil
}

func usableName(name string) bool {
	return name != "" && len(name) <= maxModelName && utf8.ValidString(name)
}
