# SPDX-License-Identifier: GPL-2.0
"""Fabric files that are right, as a Hypothesis strategy."""

from agents import fabric
from hypothesis import strategies as st

AGENTS = "127.18.0"
# The first nodes, which every file has; agents answer for all.
FEWEST, MOST = 4, 6


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
