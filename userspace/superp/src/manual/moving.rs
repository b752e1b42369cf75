// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Pages of commands that move data.

use superp_pages::Page;

pub(super) const PAGES: &[Page] = &[
    Page::new("superp ping", &[
        ("Send five probes:", "superp ping -c 5 10.23.0.2"),
        (
            "Send a hundred quickly, and print the summary for a script:",
            "superp -j ping -q -c 100 -i 0.01 10.23.0.2",
        ),
    ])
    .see_also(&["superp-doctor(1)", "ping(8)"]),
    Page::new("superp xfer", &[("Offer 16 MiB to peers:", "superp xfer serve")]),
    Page::new("superp xfer serve", &[
        ("Offer 1 GiB, and keep at the end what was written:", "superp xfer serve --size 1G --out received"),
        ("Receive three messages into a file:", "superp xfer serve --messages 3 --messages-out received"),
    ])
    .see_also(&["superp-xfer-write(1)", "superp-xfer-read(1)", "superp-xfer-send(1)"]),
    Page::new("superp xfer write", &[
        (
            "Write a file to where \"superp xfer serve\" of the peer says, and compare:",
            "superp xfer write 10.23.0.2 --remote 0xce837d1487afe001 --file picture --verify",
        ),
        (
            "Write 1 GiB of a pattern:",
            "superp xfer write 10.23.0.2 --remote 0xce837d1487afe001 --length 1G",
        ),
    ])
    .see_also(&["superp-xfer-serve(1)"]),
    Page::new("superp xfer read", &[(
        "Read 1 MiB into a file:",
        "superp xfer read 10.23.0.2 --remote 0xce837d1487afe001 --length 1M --out copy",
    )])
    .see_also(&["superp-xfer-serve(1)"]),
    Page::new("superp xfer send", &[
        (
            "Send a file as messages to the queue pair that \"superp xfer serve\" of the peer names:",
            "superp xfer send 10.23.0.2 --qpn 5 --file picture --count 10",
        ),
        (
            "Into its receive context, by key:",
            "superp xfer send 10.23.0.2 --key 0x1234 --length 64K",
        ),
    ])
    .see_also(&["superp-xfer-serve(1)"]),
    Page::new("superp perf", &[
        ("At the peer:", "superp perf serve"),
        ("Here:", "superp perf write bw 10.23.0.2"),
    ]),
    Page::new("superp perf serve", &[
        ("Offer 16 MiB:", "superp perf serve"),
        ("Offer enough for long requests:", "superp perf serve --size 256M"),
    ]),
    Page::new("superp perf write", &[
        ("Measure the latency of small writes:", "superp perf write lat 10.23.0.2"),
        ("Measure bandwidth both ways at once:", "superp perf write bw 10.23.0.2 --bidirectional"),
    ])
    .see_also(&["superp-perf-serve(1)"]),
    Page::new("superp perf read", &[(
        "Measure the bandwidth of reads of 1 MiB, and compare all bytes:",
        "superp perf read bw 10.23.0.2 --size 1M --depth 16 --verify",
    )])
    .see_also(&["superp-perf-serve(1)"]),
    Page::new("superp perf send", &[(
        "Measure the rate of messages, of 16 queue pairs in turn:",
        "superp perf send rate 10.23.0.2 --qps 16",
    )])
    .see_also(&["superp-perf-serve(1)"]),
    Page::new("superp perf atomic", &[(
        "Measure the latency of additions:",
        "superp perf atomic lat 10.23.0.2",
    )])
    .see_also(&["superp-perf-serve(1)"]),
    Page::new("superp run", &[
        ("Run a program of perftest:", "superp run -- ib_write_bw 10.23.0.2"),
        (
            "In the partition of a job, with a thread in place of doorbells:",
            "SUPERP_PARTITION=77 superp run --poller -- ib_write_lat 10.23.0.2",
        ),
    ])
    .exit(&[
        ("1", "The program could not be run; standard error says why."),
        ("2", "The command line is wrong."),
        ("others", "Those of the program, which takes the place of superp."),
    ])
    .files(&[(
        "/usr/lib/superp/libsuperp_preload.so",
        "What stands before libibverbs; beside superp, or in ../lib/superp seen from there.",
    )])
    .see_also(&["ibv_get_device_list(3)", "rdma_cm(7)"]),
];
