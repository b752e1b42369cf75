// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp fabric job`: jobs with partitions of their own.

use super::Manager;
use crate::failure::Failure;
use crate::out::{Out, Table};
use clap::{Args, Subcommand};
use superp_control::manager::{Job, JobSettings, JobSpec, ManagerError};
use superp_control::Extensions;
use superp_proto::Param;
use superp_units::quantity;

#[derive(Subcommand)]
pub(crate) enum JobVerb {
    /// Make a job: its nodes connected all to all, in a new partition. Made again it changes nothing.
    Create {
        /// Its name.
        name: String,
        /// Its nodes, as xpu[01-04,07].
        hosts: String,
        /// Wait so many seconds, or a time such as 2m, until all its connections run; if they do not, the job is removed again.
        #[arg(long, value_name = "TIME", default_value_t = 0, value_parser = superp_units::whole_seconds)]
        wait: u64,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// Show the jobs.
    List,
    /// Show a job: its partition too, to operators and its own nodes.
    Show {
        /// Its name.
        name: String,
        /// Wait so many seconds, or a time such as 2m, until it is there and all its connections run.
        #[arg(long, value_name = "TIME", default_value_t = 0, value_parser = superp_units::whole_seconds)]
        wait: u64,
    },
    /// Print the number of a job's partition and nothing else, for scripts.
    Token {
        /// Its name.
        name: String,
        /// Wait so many seconds, or a time such as 2m, until it is there and all its connections run.
        #[arg(long, value_name = "TIME", default_value_t = 0, value_parser = superp_units::whole_seconds)]
        wait: u64,
    },
    /// End a job: its connections are removed, and its partition is revoked.
    Remove {
        /// Its name.
        name: String,
        /// It is no failure if there is none.
        #[arg(long)]
        ignore_not_found: bool,
    },
}

/// What connections of a job are like, as in a table [[connections]] of a fabric file.
#[derive(Args)]
pub(crate) struct Settings {
    /// How packets are carried: sunh, the default, udp, udp4 or udp6.
    #[arg(long)]
    encap: Option<String>,
    /// Order of delivery: ordered, the default, or unordered.
    #[arg(long)]
    order: Option<String>,
    /// Every packet is another flow to the network.
    #[arg(long)]
    spray: bool,
    /// Whether the extension opcodes are used: true, false or auto, the default: if both ends have them.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    ext: Option<Extensions>,
    /// Traffic Class.
    #[arg(long)]
    tclass: Option<u8>,
    /// Hop Limit.
    #[arg(long)]
    hop_limit: Option<u8>,
    /// Largest packet, bytes.
    #[arg(long)]
    mtu: Option<u32>,
    /// The same as pdl_window_size.
    #[arg(long)]
    window: Option<u64>,
    /// A parameter of connections, as pdl_window_size=64 or pdl_dead_time=2s; may be repeated.
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = parameter)]
    parameters: Vec<(String, u64)>,
}

impl From<Settings> for JobSettings {
    fn from(settings: Settings) -> Self {
        Self {
            encap: settings.encap,
            order: settings.order,
            spray: settings.spray.then_some(true),
            ext: settings.ext,
            tclass: settings.tclass,
            hop_limit: settings.hop_limit,
            mtu: settings.mtu,
            window: settings.window,
            parameters: settings.parameters.into_iter().collect(),
        }
    }
}

fn parameter(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("write a parameter as NAME=VALUE")?;
    // The manager refuses a name that is none.
    let unit = Param::find(name).map_or("", |param| param.unit);
    let value = quantity(name, &value.replace('_', ""), unit)?;
    Ok((name.to_owned(), value))
}

pub(super) fn run(manager: &Manager, verb: JobVerb, out: &mut Out) -> Result<(), Failure> {
    let client = &manager.client;
    match verb {
        JobVerb::Create {
            name,
            hosts,
            wait,
            settings,
        } => {
            let settings = (*settings).into();
            let spec = JobSpec {
                name,
                hosts,
                settings,
            };
            let job = manager.wait(client.make_job(&spec, wait))?;
            out.either(&job, |out| show(&job, out))
        }
        JobVerb::List => {
            let list = manager.wait(client.jobs())?;
            out.either(&list, |out| table(&list, out))
        }
        JobVerb::Show { name, wait } => {
            let job = manager.wait(client.job(&name, wait))?;
            out.either(&job, |out| show(&job, out))
        }
        JobVerb::Token { name, wait } => {
            let job = manager.wait(client.job(&name, wait))?;
            if wait > 0 && !job.runs() {
                let text = format!(
                    "the job {name} does not run after {wait} s\n{}",
                    job.waiting.join("\n")
                );
                return Err(Failure::new(text));
            }
            let Some(token) = job.partition else {
                return Err(Failure::new(format!(
                    "the partition of the job {name} is told to operators and its nodes only"
                )));
            };
            out.either(&token, |out| out.line(token))
        }
        JobVerb::Remove {
            name,
            ignore_not_found,
        } => match manager.runtime.block_on(client.end_job(&name)) {
            Err(ManagerError::Refused(problem)) if problem.status == 404 && ignore_not_found => {
                Ok(())
            }
            done => Ok(done?),
        },
    }
}

fn state(job: &Job) -> String {
    let (running, all) = (job.connections_running, job.connections);
    let state = if job.runs() { "running" } else { "starting" };
    format!("{state}, {running} of {all} connections running")
}

fn show(job: &Job, out: &mut Out) -> Result<(), Failure> {
    out.line(format_args!("job {}: {}", job.name, state(job)))?;
    out.line(format_args!("  nodes {}", job.hosts.join(" ")))?;
    if let Some(partition) = job.partition {
        out.line(format_args!("  partition {partition}"))?;
    }
    job.waiting
        .iter()
        .try_for_each(|line| out.line(format_args!("  {line}")))
}

fn table(list: &[Job], out: &mut Out) -> Result<(), Failure> {
    let mut table = Table::new(&["JOB", "NODES", ">CONNS", ">RUNNING", ">PARTITION"]);
    for job in list {
        let partition = job.partition.map(|partition| partition.to_string());
        table.row([
            job.name.clone(),
            job.hosts.join(" "),
            job.connections.to_string(),
            job.connections_running.to_string(),
            partition.unwrap_or("-".into()),
        ]);
    }
    table.print(out, "no jobs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbers_or_times() {
        for (text, value) in [
            ("pdl_dead_time=2s", 2_000_000_000),
            ("pdl_dead_time=2_000_000_000", 2_000_000_000),
            ("tal_transaction_timeout=500us", 50_000),
            ("pdl_window_size=64", 64),
        ] {
            let name = text.split('=').next().unwrap_or_default().to_owned();
            assert_eq!(parameter(text), Ok((name, value)), "{text}");
        }
        for (text, why) in [
            ("pdl_window_size=2s", "the value is a number of packets"),
            ("pdl_dead_time=2x", "is not a number"),
            ("pdl_dead_time", "write a parameter as NAME=VALUE"),
        ] {
            let told = parameter(text).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
