// SPDX-License-Identifier: GPL-2.0

//! SUNH for the paths of `kapi`, which know only that frames have a network header.

use crate::{
    kapi::{
        params::{ethertype, family, lite_ethertype},
        path::NetHeader,
        registration::Numbers,
    },
    proto::wire::Sunh,
};

/// Offset in the header of the word that ends with the Flow Label, and the bits of that word which
/// are the Flow Label.
const FLOW_LABEL: (u8, u16) = (2, 0xfff);

/// The header for a path. The entropy of a path changes its Flow Label.
pub(super) fn net_header(header: &Sunh) -> NetHeader {
    let (offset, mask) = FLOW_LABEL;
    NetHeader::new(&header.bytes(), offset, mask)
}

/// EtherType of SUNH, or of SUNH with SUPERp-lite.
pub(super) fn ethertype_of(lite: bool) -> u16 {
    match lite {
        true => lite_ethertype(),
        false => ethertype(),
    }
}

/// What the module registers.
pub(crate) fn numbers() -> Numbers {
    Numbers {
        family: family().into(),
        ethertypes: [ethertype(), lite_ethertype()],
        // CAST: 8.
        header_len: Sunh::LEN as u32,
    }
}
