// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp-cm init` and `superp-cm issue`: the fabric's authority and its certificates.

use std::path::PathBuf;
use superp_tls::authority::{self, Request, AUTHORITY_DAYS, AUTHORITY_KEY_FILE};
use superp_tls::Role;

/// Where the authority is, unless told.
const AUTHORITY: &str = "/etc/superp/ca";

/// What the manager can always be reached by, on its host.
const HERE: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

#[derive(clap::Args)]
pub(crate) struct Init {
    /// Directory of the authority. Its key is in it: whoever can read it can be anybody.
    #[arg(long, default_value = AUTHORITY)]
    dir: PathBuf,
    /// Host name or address that others reach the manager by, besides localhost; may be repeated.
    #[arg(long, value_name = "NAME|ADDRESS")]
    address: Vec<String>,
    /// Days that the manager's certificate is valid.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=i64::from(AUTHORITY_DAYS)))]
    days: u32,
}

#[derive(clap::Args)]
pub(crate) struct Issue {
    /// Directory of the authority.
    #[arg(long, default_value = AUTHORITY)]
    dir: PathBuf,
    /// What its owner may do: "viewer" asks, "operator" also commands, "agent" serves a host, "manager"
    /// commands agents.
    #[arg(long)]
    role: Role,
    /// Whose it is: a person, or a host.
    #[arg(long)]
    name: String,
    /// Host name or address that the agent or the manager serves under, without port; may be repeated.
    #[arg(long, value_name = "NAME|ADDRESS")]
    address: Vec<String>,
    /// Days that it is valid.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=i64::from(AUTHORITY_DAYS)))]
    days: u32,
    /// Directory for ca.crt, tls.crt and tls.key: what its owner gives as --tls.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn init(args: Init) -> Result<(), String> {
    let addresses = HERE.map(str::to_owned).into_iter().chain(args.address);
    let manager = Request::new("manager", Role::Manager, addresses.collect(), args.days);
    // An authority without its manager would be half of what was asked for.
    authority::check(&manager)?;
    authority::init(&args.dir)?;
    let out = args.dir.join("manager");
    authority::issue(&args.dir, &manager, &out)?;
    println!(
        "authority in {}; keep {AUTHORITY_KEY_FILE} secret, and a copy of it\n\
         manager: superp-cm serve --tls {}\n\
         others:  superp-cm issue --role viewer|operator|agent --name NAME --out DIR",
        args.dir.display(),
        out.display()
    );
    Ok(())
}

pub(crate) fn issue(args: Issue) -> Result<(), String> {
    let request = Request::new(&args.name, args.role, args.address, args.days);
    authority::issue(&args.dir, &request, &args.out)?;
    println!(
        "{}: a certificate of the {} {}, valid for {} days; its owner gives the directory as --tls",
        args.out.display(),
        args.role,
        args.name,
        args.days
    );
    Ok(())
}
