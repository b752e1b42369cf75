// SPDX-License-Identifier: GPL-2.0

//! Ports: the devices that carry SUPERp.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, ArcBorrow,
    },
    workqueue::{impl_has_work, WorkItem},
};

use super::{count, Node, Settings};
use crate::{
    conn::Conn,
    event::Event,
    kapi::{
        defer,
        errno::Refusal,
        net::{self, DeviceEvent, DeviceEventKind, NetRef},
        rx::UdpPort,
    },
    params,
};

/// A device that carries SUPERp, and the encapsulations that it receives.
pub(crate) struct Port {
    pub(crate) ifindex: u32,
    pub(crate) sunh: bool,
    pub(crate) udp: bool,
    /// State in the last event.
    pub(crate) up: Atomic<bool>,
}

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

/// A device that was unregistered. Another one may get its index.
pub(super) struct Departure {
    ifindex: u32,
    /// Number of the last connection or next hop that was created before.
    last: u64,
}

impl Departure {
    /// Whether a path over device `ifindex`, of the connection or next hop `number`, is over the
    /// device that was unregistered.
    pub(super) fn concerns(&self, ifindex: u32, number: u64) -> bool {
        ifindex == self.ifindex && number <= self.last
    }

    fn concerns_any(&self, conn: &Conn) -> bool {
        conn.uses_device(self.ifindex) && conn.identity().number <= self.last
    }
}

impl_has_work! {
    impl HasWork<Self> for Node { self.departing }
}

impl WorkItem for Node {
    type Pointer = Arc<Node>;

    fn run(this: Arc<Node>) {
        this.finish_departures();
    }
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
        let up = self
            .device_up(ifindex)
            .ok_or_else(|| Refusal::new(ENODEV, c"no such device in this network namespace"))?;
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
        let unused = self.unused_udp(&mut config);
        drop(config);
        drop(unused);
        inserted.map_err(no_memory)?;
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
        let unused = self.unused_udp(&mut config);
        drop(config);
        drop(unused);
        self.notify(Event::PortDeleted { ifindex });
        Ok(())
    }

    /// Takes the UDP socket if no port serves UDP any more. The caller closes it without the mutex.
    fn unused_udp(&self, config: &mut Settings) -> Option<UdpPort> {
        if self.ports.iter().any(|(_, port)| port.udp) {
            None
        } else {
            config.udp.take()
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

    /// A device of a port is unregistered. Removes the port, and has the workqueue see to
    /// connections and routes, of which there may be tens of thousands: the whole machine shares
    /// RTNL, which is held. The kernel waits, without RTNL, until all have let go of the device.
    fn depart(this: ArcBorrow<'_, Self>, ifindex: u32) {
        // The port is removed first, so that no more connections are created over it.
        let mut config = this.config.lock();
        if this.ports.get(ifindex).is_none() {
            return;
        }
        this.ports.remove_later(ifindex);
        let unused = this.unused_udp(&mut config);
        let departure = Departure {
            ifindex,
            last: config.created,
        };
        let noted = config.departures.push(departure, GFP_KERNEL);
        drop(config);
        drop(unused);
        match noted {
            // It fails only if it is queued already.
            Ok(()) => drop(defer::queue().enqueue(Arc::from(this))),
            // Without memory others have to wait.
            Err(_) => this.let_go(&Departure {
                ifindex,
                last: u64::MAX,
            }),
        }
        this.notify(Event::PortDeleted { ifindex });
    }

    /// Has connections and routes let go of a device. Process context; reschedules now and then.
    fn let_go(&self, departure: &Departure) {
        self.routes_let_go(departure);
        for (_, conn) in self.conns.iter() {
            if departure.concerns_any(&conn) {
                conn.device_gone(departure.ifindex);
                defer::resched();
            }
        }
    }

    /// Has connections and routes let go of the devices that were unregistered. Process context.
    fn finish_departures(&self) {
        loop {
            let departure = self.config.lock().departures.pop();
            match departure {
                Some(departure) => self.let_go(&departure),
                None => return,
            }
        }
    }

    /// Handles a change of a device of the namespace. Process context, RTNL is held.
    pub(crate) fn device_event(this: ArcBorrow<'_, Self>, event: DeviceEvent) {
        match event.kind {
            DeviceEventKind::Unregister => Self::depart(this, event.ifindex),
            _ => this.device_changed(event),
        }
    }

    fn device_changed(&self, event: DeviceEvent) {
        let ifindex = event.ifindex;
        match event.kind {
            DeviceEventKind::Unregister => {}
            DeviceEventKind::Up | DeviceEventKind::Down | DeviceEventKind::CarrierChange => {
                let Some(port) = self.ports.get(ifindex) else {
                    return;
                };
                // A device that is being taken down still counts as up.
                let up =
                    event.kind != DeviceEventKind::Down && self.device_up(ifindex).unwrap_or(false);
                if port.up.load(Relaxed) != up {
                    port.up.store(up, Relaxed);
                    self.notify(Event::Port { ifindex, up });
                }
            }
            DeviceEventKind::MtuChange => {
                let over = |(_, conn): &(u32, Arc<Conn>)| conn.uses_device(ifindex);
                let conns = self.conns.iter().filter(over);
                conns.for_each(|(_, conn)| conn.check_mtu());
            }
            DeviceEventKind::AddrChange => {}
        }
    }
}
