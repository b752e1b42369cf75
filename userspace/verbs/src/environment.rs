// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the environment of the program says of its job, and what follows for its regions and queue
//! pairs.

use crate::partition::{connections, wanted, Malformed};
use crate::{Address, Error, Result};
use std::sync::{Mutex, PoisonError};
use superp_netlink::Client;

/// What the environment said when a context was opened. That it is malformed matters to those who name
/// no partition themselves.
#[derive(Debug)]
pub(crate) struct Environment(Result<Option<Job>, Malformed>);

#[derive(Debug)]
struct Job {
    partition: u32,
    /// Of the network namespace of the context, which need not be the one of later callers.
    client: Mutex<Client>,
}

impl Environment {
    pub(crate) fn read() -> Result<Self> {
        let job = |partition| {
            let client = Mutex::new(Client::open()?);
            Ok::<_, Error>(Job { partition, client })
        };
        Ok(Self(match wanted() {
            Ok(partition) => Ok(partition.map(job).transpose()?),
            Err(malformed) => Err(malformed),
        }))
    }

    fn job(&self) -> Result<Option<&Job>> {
        self.0
            .as_ref()
            .map(Option::as_ref)
            .map_err(|malformed| Error::Partition(malformed.clone()))
    }

    /// The partition of regions, 0 for any.
    pub(crate) fn partition(&self) -> Result<u32> {
        Ok(self.job()?.map_or(0, |job| job.partition))
    }

    /// The peer, with the connection to it that is in the partition, unless one is chosen already.
    pub(crate) fn complete(&self, peer: &Address) -> Result<Address> {
        if peer.cid.is_some() {
            return Ok(*peer);
        }
        let Some(job) = self.job()? else {
            return Ok(*peer);
        };
        let mut client = job.client.lock().unwrap_or_else(PoisonError::into_inner);
        let found = connections(&mut client, peer.addr, Some(job.partition))?;
        match found.first() {
            Some(&cid) => Ok(Address {
                cid: Some(cid),
                ..*peer
            }),
            None => Err(Error::NoConnectionInPartition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::read;

    #[test]
    fn malformed_environment_matters_only_where_nothing_is_named() {
        let environment = Environment(read("seven".into()).map(|_| None));
        let named = Address {
            cid: Some(3),
            ..Address::new([10, 23, 0, 1].into(), 0)
        };
        assert_eq!(environment.complete(&named).unwrap(), named);
        let unnamed = Address { cid: None, ..named };
        for error in [
            environment.complete(&unnamed).unwrap_err(),
            environment.partition().unwrap_err(),
        ] {
            assert!(matches!(error, Error::Partition(_)), "{error}");
            assert_eq!(error.errno(), 22);
        }
    }
}
