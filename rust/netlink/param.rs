// SPDX-License-Identifier: GPL-2.0

//! Netlink operations on parameters.

use super::report_refusal;
use crate::{
    kapi::nl::{numbers::*, Attr, Dump, Message, Request},
    node::Node,
    params::{self, ParamId, Scope},
    proto::Param,
};
use kernel::{prelude::*, str::BStr};

/// Puts a parameter and its value of the node into `msg`.
fn put(msg: &mut Message<'_>, node: &Node, id: ParamId) -> Result {
    let spec = id.spec();
    msg.put_text(SUPERP_A_PARAM_NAME, spec.name)?;
    msg.put_uint(SUPERP_A_PARAM_VALUE, node.param_get(id))?;
    msg.put_uint(SUPERP_A_PARAM_MIN_VALUE, spec.min)?;
    msg.put_uint(SUPERP_A_PARAM_MAX_VALUE, spec.max)?;
    msg.put_uint(SUPERP_A_PARAM_DEFAULT, spec.default)?;
    msg.put_text(SUPERP_A_PARAM_UNIT, spec.unit)?;
    if id.scope() == Scope::Conn {
        msg.put_flag(SUPERP_A_PARAM_PER_CONN)?;
    }
    msg.put_text(SUPERP_A_PARAM_DOC, spec.doc)
}

/// The parameter that the text of attribute `name` names.
pub(super) fn from_name(request: Request<'_>, name: Attr<'_>) -> Result<ParamId> {
    params::by_name(name.text()).ok_or_else(|| {
        let text = BStr::from_bytes(name.text());
        request.refuse_fmt(
            Some(name),
            ENOENT,
            fmt!("no parameter {text}: param-get lists them"),
        )
    })
}

/// The number in attribute `value`, if it is in the range of `param`.
pub(super) fn parse_value(request: Request<'_>, value: Attr<'_>, param: ParamId) -> Result<u64> {
    let number = value.integer()?;
    let Param { name, min, max, .. } = param.spec();
    if (*min..=*max).contains(&number) {
        return Ok(number);
    }
    Err(request.refuse_fmt(
        Some(value),
        ERANGE,
        fmt!("{name} {number} is out of range {min}..{max}"),
    ))
}

/// The attribute with the name of the parameter.
fn parse_name(request: Request<'_>) -> Result<Attr<'_>> {
    request
        .attr(SUPERP_A_PARAM_NAME)
        .ok_or_else(|| request.missing(SUPERP_A_PARAM_NAME, c"name of the parameter is missing"))
}

/// param-get of one parameter.
pub(crate) fn get(request: Request<'_>) -> Result {
    let node = request.node()?;
    let id = from_name(request, parse_name(request)?)?;
    request.reply(|msg| put(msg, &node, id))
}

/// param-get of all parameters.
pub(crate) fn dump(dump: Dump<'_>) -> Result {
    let node = dump.request().node()?;
    dump.each(
        |from| Some((from, params::nth(usize::try_from(from).ok()?)?)),
        |msg, id| put(msg, &node, *id),
    )
}

/// param-set.
pub(crate) fn set(request: Request<'_>) -> Result {
    let node = request.node()?;
    let name = parse_name(request)?;
    let id = from_name(request, name)?;
    let attr = request.attr(SUPERP_A_PARAM_VALUE).ok_or_else(|| {
        request.missing(SUPERP_A_PARAM_VALUE, c"value of the parameter is missing")
    })?;
    node.param_set(id, parse_value(request, attr, id)?)
        .map_err(|refusal| report_refusal(request, Some(name), refusal))
}
