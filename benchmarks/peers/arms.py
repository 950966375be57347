"""What is compared with what, and what is not equal between them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to decode.

    peer: whose environment and worker. reads: "name" of the model, its "gguf" file, or "folder"
    converted from that. weights: the format asked for, "" = the peer's default.
    """

    name: str
    peer: str
    label: str
    speculate: bool
    reads: str
    weights: str = ""


def _pair(peer: str, label: str, how: str, reads: str, weights: str = "") -> list[Arm]:
    name = f"{peer}-{weights}" if weights else peer
    plain = f"{name}-plain", f"{label}, plain", False
    speculative = f"{name}-{how.replace(' ', '-')}", f"{label}, {how}", True
    return [
        Arm(name=n, peer=peer, label=text, speculate=s, reads=reads, weights=weights)
        for n, text, s in (plain, speculative)
    ]


ARMS = [
    *_pair("outpace", "outpace", "auto", "name"),
    *_pair("outpace", "outpace q8", "auto", "name", "q8"),
    *_pair("transformers", "transformers", "lookup", "folder"),
    *_pair("llama", "llama-cpp-python", "lookup", "gguf"),
    *_pair("openvino", "OpenVINO GenAI", "lookup", "gguf"),
    *_pair("vllm", "vLLM on CPU", "ngram", "folder"),
]
PLAIN = "outpace-plain"
AUTO = "outpace-auto"
PLAIN_Q8 = "outpace-q8-plain"
BATCHED = ("outpace-plain", "vllm-plain")
PEERS = ("transformers", "llama", "openvino", "vllm")

NOT_EQUAL = {
    "weights": (
        "Every arm starts from one GGUF file. outpace, llama.cpp and OpenVINO run its 4-bit "
        "blocks, each in a form of its own; transformers and vLLM cannot, and run bf16 rounded "
        "from them: three times the bytes a pass."
    ),
    "caches": (
        "outpace and llama.cpp keep keys and values in 16 bits, transformers and vLLM in bf16; "
        "OpenVINO's defaults keep them in 8 bits and round the rows of a pass to 8 bits in groups "
        "of 32 (outpace and llama.cpp round those too, in blocks of 32)."
    ),
    "threads": (
        "All get the same number of threads. vLLM pins its own to cores, the others do not. "
        "Workers that wait for their turn are stopped (SIGSTOP), so none of them spins meanwhile."
    ),
    "templates": "None: all arms are given the same token ids, made once by outpace.",
    "lengths": (
        "The answer's length is where outpace's plain text ends (at least 16 tokens, at most "
        "--tokens); every arm then generates exactly that many, its own end of text ignored."
    ),
    "texts": (
        "Greedy everywhere, but formats round differently, so each peer writes its own text after "
        "a while; speculation then guesses a different text too. How many agree is in the table."
    ),
    "interfaces": (
        "outpace streams text through its public API; the others are asked for token ids only. "
        "vLLM's engine is stepped inside the worker, without its server, in eager mode."
    ),
    "memory": (
        "None: outpace's auto drafter could learn from answers to other prompts, and is reset "
        "before each one, so that it sees one text only, as the peers' lookups do."
    ),
    "prefixes": (
        "Engines that remember prompts (outpace, OpenVINO) would read a repeated one for nothing: "
        "time to first token is taken from each prompt's first reading, prefill texts never repeat."
    ),
    "speculation": (
        "The peers' settings are those of their own documentation, not tuned per prompt. Lookup "
        "in llama-cpp-python needs the logits of every row, which its plain arm does not compute."
    ),
}


def choose(names: list[str]) -> list[Arm]:
    """Arms by name or by peer, in the table's order; no names = all.

    Raises:
        ValueError: a name that is neither.
    """
    known = {arm.name for arm in ARMS} | {arm.peer for arm in ARMS}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ValueError(f"no arm {', '.join(wrong)}; there are {', '.join(sorted(known))}")
    return [arm for arm in ARMS if not names or arm.name in names or arm.peer in names]
