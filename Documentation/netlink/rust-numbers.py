#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes the numbers of a netlink family as Rust constants.

Run by Documentation/netlink/regenerate, with the kernel's tools/net/ynl/pyynl
on PYTHONPATH.
"""

import argparse
import os

from lib import SpecFamily


def const(name):
    return name.replace("-", "_").upper()


def module(name):
    return name.replace("-", "_")


def doc(text, indent=""):
    if not text:
        return ""
    words, lines, line = text.split(), [], f"{indent}///"
    for word in words:
        if len(line) + 1 + len(word) > 92:
            lines.append(line)
            line = f"{indent}///"
        line += f" {word}"
    return "\n".join(lines + [line]) + "\n"


def sentence(text):
    text = " ".join(text.split())
    return text if text.endswith(".") else text + "."


def definitions(family):
    out = ""
    for name, item in family.consts.items():
        if item["type"] == "const":
            out += doc(sentence(item.get("doc", f"`{name}`")))
            out += f"pub const {const(name)}: u32 = {item['value']};\n\n"
            continue
        out += doc(sentence(item.yaml.get("doc", f"Values of `{name}`")))
        out += f"pub mod {module(name)} {{\n"
        for entry in item.entries.values():
            out += doc(entry.doc and sentence(entry.doc) or f"`{entry.name}`.", "    ")
            out += f"    pub const {const(entry.name)}: u32 = {entry.user_value(as_flags=False)};\n"
        out += "    /// Every value with its name.\n"
        out += "    pub const NAMES: &[(u32, &str)] = &["
        out += ", ".join(f'({const(e.name)}, "{e.name}")' for e in item.entries.values())
        out += "];\n}\n\n"
    return out


def attributes(family):
    out = ""
    for name, space in family.attr_sets.items():
        out += doc(f"Attributes of the set `{name}`. " + sentence(space.yaml.get("doc", ".")).lstrip("."))
        out += f"pub mod {module(name)} {{\n"
        for attr in space.attrs.values():
            text = attr.yaml.get("doc")
            kind = f"({attr.type})"
            out += doc(f"{sentence(text)} {kind}" if text else f"`{attr.name}` {kind}.", "    ")
            out += f"    pub const {const(attr.name)}: u16 = {attr.value};\n"
        out += "    /// Every attribute of the set.\n"
        out += "    pub const ATTRS: &[super::Attr] = &["
        for attr in space.attrs.values():
            nested = "None"
            if attr.type == "nest":
                nested = f"Some(super::{module(attr.yaml['nested-attributes'])}::ATTRS)"
            out += f'super::Attr {{ number: {const(attr.name)}, name: "{attr.name}", nested: {nested} }},'
        out += "];\n}\n\n"
    return out


def commands(family):
    out = "/// Commands.\npub mod cmd {\n"
    for op in family.msgs.values():
        out += doc(sentence(op.yaml["doc"]), "    ")
        out += f"    pub const {const(op.name)}: u8 = {op.value};\n"
    return out + "}\n\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", required=True)
    parser.add_argument("-o", dest="out", required=True)
    args = parser.parse_args()
    family = SpecFamily(args.spec, schema_path="")
    name = os.path.basename(args.spec)
    text = "// SPDX-License-Identifier: GPL-2.0 OR MIT\n"
    text += f"//! Numbers of the netlink family, generated from `Documentation/netlink/specs/{name}` by\n"
    text += "//! `Documentation/netlink/regenerate`: do not edit.\n\n"
    text += "/// An attribute of a set.\n"
    text += "pub struct Attr {\n"
    text += "    /// Its number.\n    pub number: u16,\n"
    text += "    /// Its name in the specification.\n    pub name: &'static str,\n"
    text += "    /// The attributes inside, of a nested one.\n"
    text += "    pub nested: Option<&'static [Attr]>,\n}\n\n"
    text += f'/// Name of the family.\npub const FAMILY: &str = "{family.name}";\n'
    for group in family.mcast_groups.values():
        text += doc(f"Name of the multicast group `{group.name}`.")
        text += f'pub const GROUP_{const(group.name)}: &str = "{group.name}";\n'
    text += "\n" + definitions(family) + attributes(family) + commands(family)
    with open(args.out, "w", encoding="utf-8") as out:
        out.write(text)


if __name__ == "__main__":
    main()
