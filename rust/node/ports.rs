// SPDX-License-Identifier: GPL-2.0

//! Ports: the devices that carry SUPERp.

use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc, ArcBorrow},
    workqueue::{impl_has_work, WorkItem},
};

use super::{count, Node, Settings};
use crate::{
    conn::{Conn, Port},
    event::Event,
    kapi::{
        defer,
        errno::Refusal,
        net::{self, DeviceEvent, DeviceEventKind, NetRef},
        rx::UdpPort,
    },
    params,
};

/// A snapshot of a port, for netlink.
pub(crate) struct PortInfo {
    pub(crate) ifindex: u32,
    pub(crate) sunh: bool,
    pub(crate) udp: bool,
    pub(crate) up: bool,
    /// MTU of the device, in bytes.
    pub(crate) mtu: u32,
    /// Connections with a path over the device.
    pub(crate) conns: u32,
}

impl Node {
    /// Makes a device a port. Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENODEV`: the device cannot be such a port. `EBUSY`: a bridge, bond or team has
    /// it. `EEXIST`: it is a port. `ENOMEM`. Others: the UDP port could not be opened.
    pub(crate) fn port_new(&self, port: Port) -> Result<(), Refusal> {
        let ifindex = port.ifindex;
        if !port.sunh && !port.udp {
            return Err(Refusal::new(EINVAL, c"a port serves sunh, udp or both"));
        }
        let no_device = || Refusal::new(ENODEV, c"no such device in this network namespace");
        let up = self.device_up(ifindex).ok_or_else(no_device)?;
        if self
            .net()
            .with(|net| net::device_enslaved(net, ifindex))
            .unwrap_or(false)
        {
            return Err(Refusal::new(
                EBUSY,
                c"the device is part of a bridge, bond or team, which takes all that it receives: use that",
            ));
        }
        if port.sunh
            && self
                .net()
                .with(|net| net::device_ip_only(net, ifindex))
                .unwrap_or(false)
        {
            return Err(Refusal::new(
                EINVAL,
                c"an ipvlan device receives nothing but IP: let it serve udp alone (encap udp)",
            ));
        }
        let no_memory = |_| Refusal::new(ENOMEM, c"no memory for the port");
        port.up.store(up, Relaxed);
        let mut config = self.config.lock();
        if config.exiting {
            return Err(Refusal::new(ENODEV, c"the network namespace is going away"));
        }
        if self.ports.get(ifindex).is_some() {
            return Err(Refusal::new(EEXIST, c"the device is a port already"));
        }
        if port.udp && config.udp.is_none() {
            let number = self.param_get(params::UDP_PORT) as u16;
            config.udp = Some(UdpPort::open(&*self.live_net()?, number).map_err(|e| {
                Refusal::new(
                    e,
                    c"the UDP port of SUPERp cannot be opened (parameter nh_udp_port)",
                )
            })?);
        }
        let port = Arc::new(port, GFP_KERNEL_ACCOUNT).map_err(|_| ENOMEM);
        let inserted = port.and_then(|port| self.ports.insert(ifindex, port));
        // A device that went before is none that goes. The namespace loses it a grace period before
        // that is told, so one that is there now will be a port when it goes.
        let gone = inserted.is_ok() && self.device_up(ifindex).is_none();
        if gone {
            self.ports.remove_later(ifindex);
        }
        self.close_unused_udp(&mut config);
        drop(config);
        inserted.map_err(no_memory)?;
        if gone {
            return Err(no_device());
        }
        self.notify(Event::Port { ifindex, up });
        Ok(())
    }

    /// Removes a port. Process context.
    ///
    /// # Errors
    ///
    /// `ENOENT`: the device is no port. `EBUSY`: connections or routes use it.
    pub(crate) fn port_del(&self, ifindex: u32) -> Result<(), Refusal> {
        let mut config = self.config.lock();
        if self.ports.get(ifindex).is_none() {
            return Err(Refusal::new(ENOENT, c"the device is not a port"));
        }
        if self.conns_over(ifindex) > 0 {
            return Err(Refusal::new(
                EBUSY,
                c"connections use the port: remove them first",
            ));
        }
        if self.routes_over(ifindex) {
            return Err(Refusal::new(
                EBUSY,
                c"routes use the port: remove them first",
            ));
        }
        self.ports.remove_later(ifindex);
        self.close_unused_udp(&mut config);
        drop(config);
        self.notify(Event::PortDeleted { ifindex });
        Ok(())
    }

    /// Closes the UDP socket if no port serves UDP any more. Process context; sleeps. The caller
    /// keeps the mutex, so that nobody finds the number in use by a socket that is being closed.
    pub(super) fn close_unused_udp(&self, config: &mut Settings) {
        if !self.ports.iter().any(|(_, port)| port.udp) {
            config.udp = None;
        }
    }

    /// Whether a device can send and receive. `None` if there is no such device. Any context.
    fn device_up(&self, ifindex: u32) -> Option<bool> {
        self.net()
            .with(|net| net::device_up(net, ifindex))
            .flatten()
    }

    /// The network namespace, for what may sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV`: it is being taken down.
    pub(super) fn live_net(&self) -> Result<NetRef, Refusal> {
        let gone = || Refusal::new(ENODEV, c"the network namespace is going away");
        self.net().get().ok_or_else(gone)
    }

    /// The port with the lowest ifindex from `from` on. Any context.
    pub(crate) fn port_next(&self, from: u32) -> Option<PortInfo> {
        let (ifindex, port) = self.ports.next(from)?;
        Some(PortInfo {
            ifindex,
            sunh: port.sunh,
            udp: port.udp,
            up: self.device_up(ifindex).unwrap_or(false),
            mtu: self
                .net()
                .with(|net| net::device_mtu(net, ifindex))
                .flatten()
                .unwrap_or(0),
            conns: self.conns_over(ifindex),
        })
    }

    fn conns_over(&self, ifindex: u32) -> u32 {
        let over = |(_, conn): &(u32, Arc<Conn>)| conn.uses_device(ifindex);
        count(self.conns.iter().filter(over))
    }

    /// Handles a change of a device of the namespace. Process context. The whole machine shares
    /// RTNL, which is held: what takes the longer the more connections or routes there are is left
    /// to the workqueue, and so is what waits for others.
    pub(crate) fn device_event(this: ArcBorrow<'_, Self>, event: DeviceEvent) {
        let ifindex = event.ifindex;
        let Some(port) = this.ports.get(ifindex) else {
            return;
        };
        match event.kind {
            DeviceEventKind::Unregister => {
                port.gone.store(true, Relaxed);
                this.ports.remove_later(ifindex);
                this.notify(Event::PortDeleted { ifindex });
                Self::follow_devices_later(this);
            }
            DeviceEventKind::Up | DeviceEventKind::Down | DeviceEventKind::CarrierChange => {
                // A device that is being taken down still counts as up.
                let up =
                    event.kind != DeviceEventKind::Down && this.device_up(ifindex).unwrap_or(false);
                if port.up.load(Relaxed) != up {
                    port.up.store(up, Relaxed);
                    this.notify(Event::Port { ifindex, up });
                }
            }
            DeviceEventKind::MtuChange => Self::follow_devices_later(this),
            DeviceEventKind::AddrChange => {}
        }
    }

    fn follow_devices_later(this: ArcBorrow<'_, Self>) {
        // It fails only if it is queued already.
        let _ = defer::queue().enqueue(Arc::from(this));
    }

    /// Has connections and routes let go of devices that are gone, and breaks connections whose
    /// packets fit no device any more. The kernel waits, without RTNL, until a device that was
    /// unregistered is free. Process context; reschedules now and then.
    fn follow_devices(&self) {
        // Who has found a port before it went holds the mutex until its path can be found here.
        self.close_unused_udp(&mut self.config.lock());
        for (_, conn) in self.conns.iter() {
            conn.follow_devices();
            defer::resched();
        }
        self.routes_leave_devices();
    }
}

impl_has_work! {
    impl HasWork<Self> for Node { self.devices_work }
}

impl WorkItem for Node {
    type Pointer = Arc<Node>;

    fn run(this: Arc<Node>) {
        this.follow_devices();
    }
}
