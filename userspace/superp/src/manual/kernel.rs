// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Pages of commands that show and change the node.

use superp_pages::Page;

pub(super) const PAGES: &[Page] = &[
    Page::new("superp node", &[("Show the node:", "superp node")]),
    Page::new("superp node show", &[
        ("Show the node:", "superp node show"),
        ("Its addresses alone, by jq:", "superp -j node show"),
    ]),
    Page::new("superp node set", &[(
        "Forward packets:",
        "superp node set forwarding on",
    )]),
    Page::new("superp node set cm-address", &[
        ("Keep the address of the manager:", "superp node set cm-address 10.0.0.254"),
        ("Forget it:", "superp node set cm-address none"),
    ]),
    Page::new("superp node set forwarding", &[
        ("Be a switch of SUNH:", "superp node set forwarding on"),
        ("Be none:", "superp node set forwarding off"),
    ])
    .see_also(&["superp-route(1)"]),
    Page::new("superp node set rma-base", &[
        (
            "Give new regions addresses from 1 TiB on, 64 GiB of them:",
            "superp node set rma-base 0x10000000000 0x1000000000",
        ),
        ("Give each region a key again:", "superp node set rma-base 0"),
    ]),
    Page::new("superp dev", &[("Show the ports:", "superp dev")]),
    Page::new("superp dev show", &[
        ("Show all ports:", "superp dev show"),
        ("Show one, for a script:", "superp -j dev show eth0"),
    ]),
    Page::new("superp dev add", &[
        ("Carry SUNH and UDP on a device:", "superp dev add eth0"),
        ("Carry SUNH alone:", "superp dev add eth0 encap sunh"),
    ])
    .see_also(&["superp-conn-add(1)", "ip-link(8)"]),
    Page::new("superp dev del", &[("Take a device from SUPERp:", "superp dev del eth0")]),
    Page::new("superp conn", &[("Show the connections:", "superp conn")]),
    Page::new("superp conn show", &[
        ("Show all connections:", "superp conn show"),
        ("Show everything of one, with its counters:", "superp conn show 1 --stats"),
    ]),
    Page::new("superp conn add", &[
        (
            "Over SUNH; the peer needs the mirror image:",
            "superp conn add 1 peer 10.23.0.2 peer-cid 1 dev eth0 ext on",
        ),
        (
            "Over UDP, by the route to the peer, with the smallest id that is free:",
            "superp conn add peer 10.23.0.2 peer-cid 7 encap udp ext on",
        ),
        (
            "Over two ports, both of which carry packets:",
            "superp conn add 1 peer 10.23.0.2 peer-cid 1 path eth0 path eth1 ordered off spray on",
        ),
    ])
    .see_also(&["superp-conn-start(1)", "superp-doctor(1)"]),
    Page::new("superp conn del", &[("Delete two connections:", "superp conn del 1 2")]),
    Page::new("superp conn start", &[("Open two connections:", "superp conn start 1 2")]),
    Page::new("superp conn stop", &[("Shut a connection down softly:", "superp conn stop 1")])
        .see_also(&["superp-conn-reset(1)"]),
    Page::new("superp conn reset", &[
        (
            "Begin a new life, at both ends alike, in which no late packet is taken for a new one:",
            "superp conn reset 1 start-psn 1073741824",
        ),
        ("When both ends have stopped for 2 seconds:", "superp conn reset 1"),
    ])
    .see_also(&["superp-conn-start(1)"]),
    Page::new(
        "superp connect",
        &[
            (
                "On each of two hosts, with the address of the other one:",
                "superp connect 10.23.0.2",
            ),
            (
                "Over UDP, and no longer than half a minute:",
                "superp connect 10.23.0.2 --encap udp -W 30",
            ),
        ],
    )
    .see_also(&["superp-conn(1)", "superp-doctor(1)", "superp-ping(1)"]),
    Page::new("superp route", &[("Show the routes:", "superp route")]),
    Page::new("superp route show", &[("Show the routes:", "superp route show")]),
    Page::new("superp route add", &[
        (
            "Reach a node over another:",
            "superp route add 10.23.0.9 dev eth1 via 10.23.0.2",
        ),
        (
            "Reach a node beyond SUNH over UDP:",
            "superp route add 10.24.0.9 dev eth2 prefix 10.24.0.0/16",
        ),
    ])
    .see_also(&["superp-node-set-forwarding(1)"]),
    Page::new("superp route del", &[
        ("Remove all next hops of a node:", "superp route del 10.23.0.9"),
        ("Those on one device:", "superp route del 10.23.0.9 dev eth1"),
    ]),
    Page::new("superp param", &[("Show the parameters:", "superp param")]),
    Page::new("superp param show", &[
        ("Show all parameters with their ranges:", "superp param show"),
        ("Show one, and what it does:", "superp param show pdl_dead_time"),
    ]),
    Page::new("superp param set", &[
        (
            "Give peers of new connections more time to answer, in ms:",
            "superp param set pdl_dead_time 5000",
        ),
        ("Take that back:", "superp param set pdl_dead_time default"),
    ]),
    Page::new("superp mr", &[("Show the regions of all programs:", "superp mr")]),
    Page::new("superp mr show", &[("Show the regions of all programs:", "superp mr show")]),
    Page::new("superp qp", &[("Show the queue pairs:", "superp qp")]),
    Page::new("superp qp show", &[("Show the queue pairs:", "superp qp show")]),
    Page::new("superp stats", &[
        ("Show which packets were dropped, and why:", "superp stats"),
        ("Show all reasons that there are:", "superp stats --all"),
    ]),
    Page::new("superp events", &[
        ("Print events until interrupted:", "superp events"),
        ("Wait for the next one, for a script:", "superp -j events --count 1"),
    ])
    .see_also(&["superp-fabric-events(1)"]),
    Page::new("superp doctor", &[
        ("Look at everything:", "superp doctor"),
        ("Look at what concerns a peer that is far away:", "superp doctor 10.23.0.2 -W 3"),
    ])
    .exit(&[
        ("0", "Nothing is wrong; there may be notes."),
        ("1", "Something is wrong, and is told with what would fix it."),
        ("2", "The command line is wrong."),
    ]),
    Page::new("superp batch", &[
        ("Carry out the commands of a file:", "superp batch node.superp"),
        ("All of them, whatever fails:", "superp batch --force node.superp"),
    ])
    .exit(&[
        ("0", "All commands were carried out."),
        ("1", "A command failed; its line is told."),
        ("2", "The command line is wrong."),
    ]),
];
