# SPDX-License-Identifier: GPL-2.0
"""Configurations of a node as Hypothesis strategies: those that are right, and those with something wrong in them.
Where the term and the generation belong there are words that whoever sends the document replaces."""

import copy
import json

from hypothesis import strategies as st

TERM, GENERATION = "@term", "@generation"
# What may be at a wrong place.
ODD = (
    None, True, -1, 0, 1, 65535, 65536, 2**32, 2**64, 0.5, "", "lo", "eth9", "../eth0", "\x00", "x" * 300, "::", "fd23::2",
    "10.23.0.2", "127.0.0.1", "255.255.255.255", "192.0.2.1", [], {}, [1], {"kind": "port"},
)  # fmt: skip


@st.composite
def configurations(draw, base):
    """The one that is given, with other connections and settings."""
    body = copy.deepcopy(base) | {"term": TERM}
    config = body["configuration"]
    config["generation"] = GENERATION
    settings = {
        "tclass": st.integers(0, 255), "hop_limit": st.integers(1, 15), "flow_label": st.integers(0, 0xFFF),
        "mtu": st.sampled_from([128, 1024]), "partition": st.sampled_from([0, 7]), "ordered_rx": st.booleans(),
        "ordered_tx": st.booleans(), "start_psn": st.integers(0, 2**32 - 1), "start_xid": st.integers(0, 2**16 - 1),
        "encap": st.sampled_from(["sunh", "udp4"]), "parameters": st.just({"pdl_window_size": 128}),
        "lite": st.just(False), "ext": st.sampled_from([True, False, "auto"]),
    }  # fmt: skip
    pattern = config["connections"][0]
    config["connections"] = []
    for cid in range(1, draw(st.integers(1, 3)) + 1):
        chosen = draw(st.lists(st.sampled_from(sorted(settings)), unique=True, max_size=5))
        config["connections"].append(pattern | {"cid": cid, "peer_cid": cid} | {name: draw(settings[name]) for name in chosen})
    config["ports"] = [{"device": "eth0"} | draw(st.sampled_from([{}, {"encap": ["udp", "sunh"]}]))]
    if draw(st.booleans()):
        del config["node"]["rma"]
    config["node"]["parameters"] = {"pdl_window_size": draw(st.sampled_from([64, 256]))}
    return body


def written(body):
    text = json.dumps(body)
    for word in (TERM, GENERATION):
        text = text.replace(f'"{word}"', word)
    return text.encode()


def valid(base):
    return configurations(base).map(written)


def places(value, path=()):
    """Every place in a document, as the words that lead there."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for word, inner in items:
        yield (*path, word)
        yield from places(inner, (*path, word))


@st.composite
def misplaced(draw, base):
    """Such a document with something left out, put in, or of another kind."""
    body = draw(configurations(base))
    for _ in range(draw(st.integers(1, 2))):
        *path, word = draw(st.sampled_from(sorted(places(body), key=str)))
        inner = body
        for step in path:
            inner = inner[step]
        # A value of the same kind is one that may be refused for what it says.
        alike = [odd for odd in ODD if type(odd) is type(inner[word])]
        match draw(st.sampled_from(["alike", "alike", "alike", "replace", "remove", "add"])):
            case "alike" if alike:
                inner[word] = draw(st.sampled_from(alike))
            case "alike" | "replace":
                inner[word] = draw(st.sampled_from(ODD))
            case "remove":
                del inner[word]
            case "add" if isinstance(inner, list):
                inner.append(copy.deepcopy(inner[word]))
            case "add":
                inner[draw(st.sampled_from(["paths", "lladdr", "local", "spray", "windw"]))] = draw(st.sampled_from(ODD))
    return written(body)
