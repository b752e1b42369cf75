// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp dev`: ports.

use crate::failure::Failure;
use crate::out::{Out, Table};
use crate::words::{once, pairs, Setting, Words};
use clap::Subcommand;
use serde_json::json;
use std::net::IpAddr;
use superp_netlink::{Client, Port, PortEncap};

/// Keys of `dev add`.
const SETTINGS: &[Setting] = &[("encap", "what the port receives: sunh, udp or sunh,udp")];

#[derive(Subcommand)]
pub(crate) enum DevVerb {
    /// Show ports.
    #[command(alias = "list")]
    Show {
        /// Only this device.
        dev: Option<String>,
    },
    /// Let SUPERp use a device: superp dev add DEV [encap sunh,udp]
    Add {
        /// The device.
        dev: String,
        /// encap sunh, encap udp or encap sunh,udp (which is the default).
        #[arg(value_name = "KEY VALUE", value_parser = Words(SETTINGS), hide_possible_values = true)]
        settings: Vec<String>,
    },
    /// Take a device from SUPERp; no connection may use it.
    #[command(alias = "delete")]
    Del {
        /// The device.
        dev: String,
    },
}

pub(crate) fn run(verb: Option<DevVerb>, out: &mut Out) -> Result<(), Failure> {
    let mut client = Client::open()?;
    match verb {
        None => show(&client.ports()?, out),
        Some(DevVerb::Show { dev: None }) => show(&client.ports()?, out),
        Some(DevVerb::Show { dev: Some(dev) }) => {
            let port = client.port(index(&dev)?).map_err(of(&dev))?;
            show(&[port], out)
        }
        Some(DevVerb::Add { dev, settings }) => {
            let encap = encap(&settings)?;
            client.add_port(index(&dev)?, encap).map_err(of(&dev))?;
            out.done(&json!({ "name": dev, "encap": encap }))
        }
        Some(DevVerb::Del { dev }) => {
            client.del_port(index(&dev)?).map_err(of(&dev))?;
            out.done(&json!({ "name": dev }))
        }
    }
}

/// A failure that says of which device it tells.
fn of(dev: &str) -> impl FnOnce(superp_netlink::Error) -> Failure + '_ {
    move |error| Failure::from(error).at(dev)
}

/// The index of a device.
pub(crate) fn index(name: &str) -> Result<u32, Failure> {
    superp_sys::device_index(name)
        .map_err(|error| Failure::new(error.to_string()).hint("ip link lists the devices"))
}

fn encap(settings: &[String]) -> Result<PortEncap, Failure> {
    let mut encap = PortEncap {
        sunh: true,
        udp: true,
    };
    let settings = pairs(settings)?;
    once(&settings, "", &[])?;
    for (key, value) in settings {
        if key != "encap" {
            return Err(Failure::new(format!(
                "{key}: not a setting of a port (encap)"
            )));
        }
        let mut some = PortEncap {
            sunh: false,
            udp: false,
        };
        for kind in value.split(',') {
            match kind {
                "sunh" => some.sunh = true,
                "udp" => some.udp = true,
                _ => {
                    let text = format!("encap {value}: not sunh, udp or sunh,udp");
                    return Err(Failure::new(text));
                }
            }
        }
        encap = some;
    }
    Ok(encap)
}

fn show(ports: &[Port], out: &mut Out) -> Result<(), Failure> {
    out.either(&ports, |out| {
        let mut table = Table::new(&["DEV", "STATE", "ENCAP", ">MTU", ">CONNS", "ADDRESSES"]);
        for port in ports {
            let addresses: Vec<_> = port.addresses.iter().map(IpAddr::to_string).collect();
            table.row([
                port.name.clone(),
                port.state.to_string(),
                port.encap.names().join(","),
                port.mtu.to_string(),
                port.conns.to_string(),
                addresses.join(" "),
            ]);
        }
        table.print(out, "no ports")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Vec<&'static str>, Failure> {
        let words: Vec<String> = words.split_whitespace().map(String::from).collect();
        Ok(encap(&words)?.names())
    }

    #[test]
    fn encapsulations_of_a_port() {
        assert_eq!(parsed("").unwrap(), ["sunh", "udp"]);
        assert_eq!(parsed("encap udp").unwrap(), ["udp"]);
        assert_eq!(parsed("encap udp,sunh").unwrap(), ["sunh", "udp"]);
        for wrong in [
            "encap",
            "encap tcp",
            "encap sunh,",
            "mtu 1500",
            "encap udp encap sunh",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
