# SPDX-License-Identifier: GPL-2.0
"""What people and programs get wrong, and that it is taken or refused with what is wrong."""

import collections
import json

import hypothesis
from hypothesis import strategies as st
from node import same

# What a mistake may look like.
WORDS = (
    b"99999999999999999999", b"-1", b"0x7fffffffffffffff", b"1e400", b"{n}", b"xpu[01-65536]", b"[[", b'"', b"\x00", b"\xff",
)  # fmt: skip


@st.composite
def mutated(draw, valid):
    """A document with bytes left out, put in, or doubled."""
    data = draw(valid)
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 40)))
        piece = draw(st.one_of(st.just(data[begin:end] * 2), st.just(b""), st.binary(max_size=8), st.sampled_from(WORDS)))
        data = data[:begin] + piece + data[end:]
    return data


def answered(documents, count, ask):
    """Whatever a document has in it, it is taken or refused with what is wrong: ask gives the status, media type and
    text of the answer to one."""
    statuses = collections.Counter()

    @hypothesis.settings(max_examples=count, derandomize=True, database=None, deadline=None)
    @hypothesis.given(documents)
    def asked(data):
        status, kind, text = ask(data)
        statuses[status] += 1
        if status == 200:
            same(kind, "application/json", "media type")
            return
        if status not in (400, 409, 422):
            raise AssertionError(f"{status} for {data!r}: {text}")
        problem = json.loads(text)
        same(kind, "application/problem+json", f"media type of {problem} for {data!r}")
        same((problem["status"], bool(problem["detail"])), (status, True), f"status and a detail in {problem}")

    asked()
    print(f"# {', '.join(f'{count} of {status}' for status, count in sorted(statuses.items()))}")
    return statuses
