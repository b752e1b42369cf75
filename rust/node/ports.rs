// SPDX-License-Identifier: GPL-2.0

//! Ports: the devices that carry SUPERp.

use kernel::{prelude::*, sync::Arc};

use super::{Node, Refusal, Settings};
use crate::{
    conn::Conn,
    kapi::{
        net::{self, DeviceEvent, DeviceEventKind},
        rx::UdpPort,
    },
    netlink::{self, Event},
    params,
};

/// A device that carries SUPERp.
pub(super) struct Port {
    pub(super) ifindex: u32,
    pub(super) sunh: bool,
    pub(super) udp: bool,
}

/// What a port is made of.
pub(crate) struct PortParams {
    pub(crate) ifindex: u32,
    pub(crate) sunh: bool,
    pub(crate) udp: bool,
}

/// What there is to tell of a port.
pub(crate) struct PortInfo {
    pub(crate) ifindex: u32,
    pub(crate) sunh: bool,
    pub(crate) udp: bool,
    pub(crate) up: bool,
    /// Of the device, bytes.
    pub(crate) mtu: u32,
    /// Connections over it.
    pub(crate) conns: u32,
}

impl Node {
    /// Lets a device carry SUPERp. Process context.
    pub(crate) fn port_new(&self, params: &PortParams) -> Result<(), Refusal> {
        if !params.sunh && !params.udp {
            return Err(Refusal::new(EINVAL, c"a port serves sunh, udp or both"));
        }
        if net::device_mtu(self.net, params.ifindex).is_none() {
            return Err(Refusal::new(
                ENODEV,
                c"no such device in this network namespace",
            ));
        }
        let no_memory = |_| Refusal::new(ENOMEM, c"no memory for the port");
        let mut config = self.config.lock();
        if config.gone {
            return Err(Refusal::new(ENODEV, c"the network namespace is going away"));
        }
        if config.ports.iter().any(|p| p.ifindex == params.ifindex) {
            return Err(Refusal::new(EEXIST, c"the device is a port already"));
        }
        config.ports.reserve(1, GFP_KERNEL).map_err(no_memory)?;
        if params.udp && config.udp.is_none() {
            let number = self.params.get(params::UDP_PORT) as u16;
            config.udp = Some(UdpPort::open(self.net, number).map_err(|e| {
                Refusal::new(
                    e,
                    c"the UDP port of SUPERp cannot be opened (parameter nh_udp_port)",
                )
            })?);
        }
        config
            .ports
            .push(
                Port {
                    ifindex: params.ifindex,
                    sunh: params.sunh,
                    udp: params.udp,
                },
                GFP_KERNEL,
            )
            .map_err(no_memory)?;
        drop(config);
        let up = net::device_up(self.net, params.ifindex).unwrap_or(false);
        netlink::notify(
            self,
            Event::Port {
                ifindex: params.ifindex,
                up,
            },
        );
        Ok(())
    }

    /// The device carries SUPERp no longer. Process context.
    pub(crate) fn port_del(&self, ifindex: u32) -> Result<(), Refusal> {
        let mut config = self.config.lock();
        let index = config
            .ports
            .iter()
            .position(|p| p.ifindex == ifindex)
            .ok_or_else(|| Refusal::new(ENOENT, c"the device is not a port"))?;
        if self.conns_over(ifindex) > 0 {
            return Err(Refusal::new(
                EBUSY,
                c"connections use the port: remove them first",
            ));
        }
        let udp = self.take_port(&mut config, index);
        drop(config);
        drop(udp);
        netlink::notify(self, Event::PortDeleted { ifindex });
        Ok(())
    }

    /// Removes a port; gives the UDP socket when no port serves UDP any more, to be closed without
    /// the mutex.
    fn take_port(&self, config: &mut Settings, index: usize) -> Option<UdpPort> {
        let _ = config.ports.remove(index);
        if config.ports.iter().any(|p| p.udp) {
            None
        } else {
            config.udp.take()
        }
    }

    /// The port with the lowest ifindex from `from` on.
    pub(crate) fn port_next(&self, from: u32) -> Option<PortInfo> {
        let mut info = {
            let config = self.config.lock();
            let port = config
                .ports
                .iter()
                .filter(|p| p.ifindex >= from)
                .min_by_key(|p| p.ifindex)?;
            PortInfo {
                ifindex: port.ifindex,
                sunh: port.sunh,
                udp: port.udp,
                up: false,
                mtu: 0,
                conns: 0,
            }
        };
        info.up = net::device_up(self.net, info.ifindex).unwrap_or(false);
        info.mtu = net::device_mtu(self.net, info.ifindex).unwrap_or(0);
        info.conns = self.conns_over(info.ifindex);
        Some(info)
    }

    fn conns_over(&self, ifindex: u32) -> u32 {
        let mut n = 0;
        self.each_conn(|conn| n += u32::from(conn.identity().ifindex == ifindex));
        n
    }

    pub(super) fn each_conn(&self, mut f: impl FnMut(&Arc<Conn>)) {
        let mut from = 0;
        while let Some((cid, conn)) = self.conns.next(from) {
            f(&conn);
            from = cid + 1;
        }
    }

    /// A device of the namespace changed. Process context, RTNL held.
    pub(crate) fn device_event(&self, event: DeviceEvent) {
        let ifindex = event.ifindex;
        let is_port = |config: &Settings| config.ports.iter().position(|p| p.ifindex == ifindex);
        match event.kind {
            DeviceEventKind::Unregister => {
                self.each_conn(|conn| {
                    if conn.identity().ifindex == ifindex {
                        conn.break_off("the device was removed");
                    }
                });
                let udp = {
                    let mut config = self.config.lock();
                    let Some(index) = is_port(&config) else {
                        return;
                    };
                    self.take_port(&mut config, index)
                };
                drop(udp);
                netlink::notify(self, Event::PortDeleted { ifindex });
            }
            DeviceEventKind::Up | DeviceEventKind::Down => {
                if is_port(&self.config.lock()).is_some() {
                    let up = matches!(event.kind, DeviceEventKind::Up);
                    netlink::notify(self, Event::Port { ifindex, up });
                }
            }
            DeviceEventKind::MtuChange => self.each_conn(|conn| {
                if conn.identity().ifindex == ifindex {
                    conn.check_mtu();
                }
            }),
            DeviceEventKind::AddrChange => {}
        }
    }
}
