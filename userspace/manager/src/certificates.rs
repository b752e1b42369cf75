// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp-cm init`, `issue`, `revoke`, `token`, `enrolment` and `enrol`: the fabric's authority and its certificates.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use superp_cm::enrolment::router;
use superp_tls::authority::{self, Request, AUTHORITY_KEY_FILE, AUTHORITY_VALID};
use superp_tls::enrolment::{self, Grant, Token};
use superp_tls::serve::serve;
use superp_tls::{Role, Which, REVOCATION_FILE};
use superp_units::{between, span, DAY, HOUR, MINUTE};
use tokio::net::TcpListener;

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
    /// How long the manager's certificate is valid: days, or a time such as 12h.
    #[arg(long, value_name = "TIME", default_value = "365d", value_parser = lifetime)]
    valid: Duration,
}

/// What a certificate is to say.
#[derive(clap::Args)]
struct Owner {
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
    /// How long it is valid: days, or a time such as 12h.
    #[arg(long, value_name = "TIME", default_value = "365d", value_parser = lifetime)]
    valid: Duration,
}

#[derive(clap::Args)]
pub(crate) struct Issue {
    /// Directory of the authority.
    #[arg(long, default_value = AUTHORITY)]
    dir: PathBuf,
    #[command(flatten)]
    owner: Owner,
    /// Directory for ca.crt, tls.crt and tls.key: what its owner gives as --tls.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct Revoke {
    /// Directory of the authority.
    #[arg(long, default_value = AUTHORITY)]
    dir: PathBuf,
    /// Whose certificates: all that are valid.
    #[arg(required_unless_present = "certificate")]
    name: Option<String>,
    /// Only those of this role.
    #[arg(long, conflicts_with = "certificate")]
    role: Option<Role>,
    /// Only the one in this file, PEM.
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    certificate: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct TokenArgs {
    /// Directory of the authority.
    #[arg(long, default_value = AUTHORITY)]
    dir: PathBuf,
    #[command(flatten)]
    owner: Owner,
    /// How long it can be redeemed: hours, or a time such as 2d.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = redeemable)]
    redeem: Duration,
}

#[derive(clap::Args)]
pub(crate) struct Enrolment {
    /// Directory of the authority.
    #[arg(long, default_value = AUTHORITY)]
    dir: PathBuf,
    /// Host name or address that others reach this by; may be repeated.
    #[arg(long, value_name = "NAME|ADDRESS", required = true)]
    address: Vec<String>,
    /// Where to listen.
    #[arg(long, default_value = "0.0.0.0:7777")]
    listen: SocketAddr,
}

#[derive(clap::Args)]
pub(crate) struct Enrol {
    /// Where tokens are redeemed: https://HOST:7777.
    #[arg(long)]
    url: String,
    /// The token. Others may see it among the arguments of this program: better give it in SUPERP_TOKEN.
    #[arg(long, env = "SUPERP_TOKEN", hide_env_values = true)]
    token: String,
    /// Directory for ca.crt, tls.crt and tls.key: what is given as --tls.
    #[arg(long, value_name = "DIR", default_value = "/etc/superp/tls")]
    out: PathBuf,
}

/// Reads how long a certificate is valid; a plain number is one of days.
fn lifetime(text: &str) -> Result<Duration, String> {
    between(text, DAY, MINUTE..=AUTHORITY_VALID.as_secs()).map(Duration::from_secs)
}

/// Reads how long a token can be redeemed; a plain number is one of hours.
fn redeemable(text: &str) -> Result<Duration, String> {
    between(text, HOUR, MINUTE..=365 * DAY).map(Duration::from_secs)
}

pub(crate) fn init(args: Init) -> Result<(), String> {
    let addresses = HERE.map(str::to_owned).into_iter().chain(args.address);
    let manager = Request::new("manager", Role::Manager, addresses.collect(), args.valid);
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
    let Owner {
        role,
        name,
        address,
        valid,
    } = args.owner;
    let request = Request::new(&name, role, address, valid);
    authority::issue(&args.dir, &request, &args.out)?;
    println!(
        "{}: a certificate of the {role} {name}, valid for {}; its owner gives the directory as --tls",
        args.out.display(),
        span(valid.as_secs()),
    );
    Ok(())
}

pub(crate) fn revoke(args: Revoke) -> Result<(), String> {
    let which = match (args.name, args.certificate) {
        (_, Some(file)) => Which::File(file),
        (Some(name), None) => Which::Named(name, args.role),
        (None, None) => return Err("whose certificates? a name, or --certificate FILE".into()),
    };
    for revoked in superp_tls::revoke(&args.dir, &which, &somebody())? {
        let (role, name, serial) = (revoked.role, revoked.name, revoked.serial);
        println!("the certificate {serial} of the {role} {name} is revoked");
    }
    let list = args.dir.join(REVOCATION_FILE);
    let manager = args.dir.join("manager");
    if manager.exists() {
        // A manager takes it up within seconds, and must not find half of it.
        let (new, there) = (manager.join("ca.new"), manager.join(REVOCATION_FILE));
        let copied = std::fs::copy(&list, &new).and_then(|_| std::fs::rename(&new, &there));
        copied.map_err(|error| format!("{}: {error}", there.display()))?;
        println!("{}: the manager tells its agents", there.display());
    }
    println!(
        "{}: copy it to the --tls directory of every manager elsewhere, and of who asks managers",
        list.display()
    );
    Ok(())
}

/// Who asks, for the notes; whoever may read ca.key may say what he likes.
fn somebody() -> String {
    let user = ["SUDO_USER", "USER", "LOGNAME"].map(std::env::var);
    let user = user.into_iter().flatten().next().unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_@".contains(c);
    match !user.is_empty() && user.len() <= 64 && user.chars().all(fits) {
        true => user,
        false => "somebody".into(),
    }
}

pub(crate) fn token(args: TokenArgs) -> Result<(), String> {
    let grant = Grant {
        name: args.owner.name,
        role: args.owner.role,
        addresses: args.owner.address,
        valid: args.owner.valid,
    };
    println!("{}", enrolment::token(&args.dir, &grant, args.redeem)?);
    Ok(())
}

/// Redeems tokens until it is told to end.
pub(crate) async fn enrolment(args: Enrolment) -> Result<(), String> {
    crate::serve::log();
    let mut end = crate::serve::End::new()?;
    let config = enrolment::server(&args.dir, &args.address)?;
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| format!("{}: {error}", args.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    tracing::info!("tokens are redeemed at {address}");
    serve(listener, router(args.dir), Some(config), end.told()).await;
    Ok(())
}

pub(crate) async fn enrol(args: Enrol) -> Result<(), String> {
    let token: Token = args.token.parse()?;
    let owner = superp_tls::enrol(&args.url, &token, &args.out).await?;
    println!(
        "{}: a certificate of the {} {}; the directory is given as --tls",
        args.out.display(),
        owner.role,
        owner.name
    );
    Ok(())
}
