"""Writes a language model of two layers with random weights, so that a server
has something to run: model.py DIRECTORY TEXT... makes DIRECTORY/hf (safetensors),
DIRECTORY/lora (an adapter of it), DIRECTORY/model.gguf and DIRECTORY/embedding
(BERT), with a tokenizer that is trained on the TEXT files."""

import json
import pathlib
import sys

import gguf
import numpy
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

CONTEXT, WIDTH, LAYERS, HEADS, KV_HEADS, INNER, VOCABULARY = 8192, 256, 2, 4, 2, 512, 4096
HEAD = WIDTH // HEADS
SPECIAL = ["<pad>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>", "<think>", "</think>"]
CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
random = numpy.random.default_rng(1)


def weights(*shape):
    return random.normal(0, 0.05, shape).astype(numpy.float32)


def trained(texts, directory):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train(texts, trainer)
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    write(directory / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": CONTEXT, "chat_template": CHAT,
        "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "clean_up_tokenization_spaces": False,
    })
    return tokenizer


def write(path, value):
    path.write_text(json.dumps(value, indent=1))


def llama():
    """The tensors of a Llama by their names in safetensors and in GGUF."""
    both = {
        ("model.embed_tokens.weight", "token_embd.weight"): weights(VOCABULARY, WIDTH),
        ("lm_head.weight", "output.weight"): weights(VOCABULARY, WIDTH),
        ("model.norm.weight", "output_norm.weight"): numpy.ones(WIDTH, numpy.float32),
    }
    for i in range(LAYERS):
        for (theirs, ours), tensor in {
            ("self_attn.q_proj", "attn_q"): weights(HEADS * HEAD, WIDTH),
            ("self_attn.k_proj", "attn_k"): weights(KV_HEADS * HEAD, WIDTH),
            ("self_attn.v_proj", "attn_v"): weights(KV_HEADS * HEAD, WIDTH),
            ("self_attn.o_proj", "attn_output"): weights(WIDTH, HEADS * HEAD),
            ("mlp.gate_proj", "ffn_gate"): weights(INNER, WIDTH),
            ("mlp.up_proj", "ffn_up"): weights(INNER, WIDTH),
            ("mlp.down_proj", "ffn_down"): weights(WIDTH, INNER),
            ("input_layernorm", "attn_norm"): numpy.ones(WIDTH, numpy.float32),
            ("post_attention_layernorm", "ffn_norm"): numpy.ones(WIDTH, numpy.float32),
        }.items():
            both[f"model.layers.{i}.{theirs}.weight", f"blk.{i}.{ours}.weight"] = tensor
    return both


def write_hf(directory, tensors):
    write(directory / "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32", "dtype": "float32",
        "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "vocab_size": VOCABULARY, "hidden_act": "silu",
        "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "attention_bias": False, "mlp_bias": False,
    })
    write(directory / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})
    save_file({hf: t for (hf, _), t in tensors.items()}, directory / "model.safetensors", metadata={"format": "pt"})


def write_lora(directory):
    """An adapter of two of the projections."""
    rank, tensors = 8, {}
    for i in range(LAYERS):
        for name, out in {"q_proj": HEADS * HEAD, "v_proj": KV_HEADS * HEAD}.items():
            prefix = f"base_model.model.model.layers.{i}.self_attn.{name}"
            tensors[f"{prefix}.lora_A.weight"] = weights(rank, WIDTH)
            tensors[f"{prefix}.lora_B.weight"] = weights(out, rank)
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "adapter_config.json", {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "hf", "r": rank, "lora_alpha": 2 * rank,
        "lora_dropout": 0.0, "bias": "none", "target_modules": ["q_proj", "v_proj"], "inference_mode": True,
    })
    save_file(tensors, directory / "adapter_model.safetensors", metadata={"format": "pt"})


def write_gguf(path, tensors, tokenizer):
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("random")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(WIDTH)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(INNER)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(HEAD)
    w.add_vocab_size(VOCABULARY)
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list([token for token, _ in vocabulary])
    w.add_token_types([gguf.TokenType.CONTROL if t in SPECIAL else gguf.TokenType.NORMAL for t, _ in vocabulary])
    w.add_token_merges([" ".join(m) for m in merges])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_pad_token_id(0)
    w.add_add_bos_token(False)
    w.add_chat_template(CHAT)
    for (_, name), tensor in tensors.items():
        w.add_tensor(name, tensor)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_bert(directory):
    """A BERT, which the servers of embeddings take."""
    tensors = {
        "embeddings.word_embeddings.weight": weights(VOCABULARY, WIDTH),
        "embeddings.position_embeddings.weight": weights(2048, WIDTH),
        "embeddings.token_type_embeddings.weight": weights(2, WIDTH),
        "embeddings.LayerNorm.weight": numpy.ones(WIDTH, numpy.float32),
        "embeddings.LayerNorm.bias": numpy.zeros(WIDTH, numpy.float32),
        "pooler.dense.weight": weights(WIDTH, WIDTH),
        "pooler.dense.bias": numpy.zeros(WIDTH, numpy.float32),
    }
    for i in range(LAYERS):
        for name, (out, into) in {
            "attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH),
            "attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH),
            "intermediate.dense": (INNER, WIDTH), "output.dense": (WIDTH, INNER),
        }.items():
            tensors[f"encoder.layer.{i}.{name}.weight"] = weights(out, into)
            tensors[f"encoder.layer.{i}.{name}.bias"] = numpy.zeros(out, numpy.float32)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            tensors[f"encoder.layer.{i}.{name}.weight"] = numpy.ones(WIDTH, numpy.float32)
            tensors[f"encoder.layer.{i}.{name}.bias"] = numpy.zeros(WIDTH, numpy.float32)
    write(directory / "config.json", {
        "architectures": ["BertModel"], "model_type": "bert", "torch_dtype": "float32", "hidden_size": WIDTH,
        "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "vocab_size": VOCABULARY,
        "hidden_act": "gelu", "max_position_embeddings": 2048, "type_vocab_size": 2, "pad_token_id": 0,
        "layer_norm_eps": 1e-12,
    })
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    directory, texts = pathlib.Path(sys.argv[1]), sys.argv[2:]
    tokenizer = trained(texts, directory / "hf")
    tensors = llama()
    write_hf(directory / "hf", tensors)
    write_gguf(directory / "model.gguf", tensors, tokenizer)
    trained(texts, directory / "embedding")
    write_bert(directory / "embedding")
    write_lora(directory / "lora")
