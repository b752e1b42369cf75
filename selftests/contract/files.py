# SPDX-License-Identifier: GPL-2.0
"""Fabric files as a Hypothesis strategy: those that are right, and those with something wrong in them."""

from agents import fabric
from hypothesis import strategies as st

AGENTS = "127.18.0"
# The first nodes, which every file has; agents answer for all.
FEWEST, MOST = 4, 6
# What a mistake may look like.
WORDS = (
    b"99999999999999999999", b"-1", b"0x7fffffffffffffff", b"1e400", b"{n}", b"xpu[01-65536]", b"[[", b'"', b"\x00", b"\xff",
)  # fmt: skip


@st.composite
def valid(draw):
    """A file with the nodes of the fabric under test, and more of them, or other settings."""
    count = draw(st.integers(FEWEST, MOST))
    settings = {
        "order": st.just('"ordered"'), "encap": st.sampled_from(['"sunh"', '"udp"', '"udp4"']), "tclass": st.integers(0, 255),
        "hop_limit": st.integers(1, 15), "window": st.sampled_from([64, 256]), "partition": st.integers(0, 7),
    }  # fmt: skip
    chosen = draw(st.lists(st.sampled_from(sorted(settings)), unique=True))
    lines = [f"{name} = {draw(settings[name])}\n" for name in chosen]
    broken = draw(st.sampled_from(["restart", "stop", "shutdown"]))
    shape = draw(st.sampled_from(["mesh", "ring"]))
    file = fabric(AGENTS, count, more=f'broken = "{broken}"\n').replace("mesh", shape)
    return (file + "".join(lines)).encode()


@st.composite
def mutated(draw):
    """Such a file with bytes left out, put in, or doubled."""
    data = draw(valid())
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 40)))
        piece = draw(st.one_of(st.just(data[begin:end] * 2), st.just(b""), st.binary(max_size=8), st.sampled_from(WORDS)))
        data = data[:begin] + piece + data[end:]
    return data
