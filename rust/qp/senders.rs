// SPDX-License-Identifier: GPL-2.0

//! Memory of the messages that the sockets of each user have sent and that have not completed.
//!
//! SO_SNDBUF limits each socket. A closed socket has no limit any more, while its messages go on.
//! So each user of a node has a limit for all sockets, the closed ones included.

use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use crate::kapi::lock::{new_spinlock_bh, SpinLockBh};

/// What one user has sent.
struct User {
    /// Number of [`Sender`]s.
    senders: usize,
    bytes: Arc<Atomic<isize>>,
}

/// The users of a node that have sockets, or messages of closed ones.
#[pin_data]
pub(crate) struct Senders {
    #[pin]
    users: SpinLockBh<RBTree<u32, User>>,
}

impl Senders {
    /// Returns an empty table. Process context.
    pub(crate) fn new() -> Result<Arc<Senders>> {
        Arc::pin_init(
            pin_init!(Senders { users <- new_spinlock_bh!(RBTree::new(), "superp_senders") }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns one more sender of user `uid`. Process context.
    pub(crate) fn join(self: &Arc<Self>, uid: u32) -> Result<Sender> {
        let fresh = User {
            senders: 0,
            bytes: Arc::new(Atomic::new(0), GFP_KERNEL_ACCOUNT)?,
        };
        let node = RBTreeNode::new(uid, fresh, GFP_KERNEL_ACCOUNT)?;
        let mut unused = Some(node);
        let mut users = self.users.lock();
        if users.get(&uid).is_none() {
            if let Some(node) = unused.take() {
                users.insert(node);
            }
        }
        let user = users.get_mut(&uid).ok_or(ENOMEM)?;
        user.senders = user.senders.saturating_add(1);
        Ok(Sender {
            senders: self.clone(),
            uid,
            bytes: user.bytes.clone(),
        })
    }
}

/// A socket as one of its user's, until the last of its messages has completed.
pub(crate) struct Sender {
    senders: Arc<Senders>,
    uid: u32,
    /// Memory of all messages of the user, in bytes.
    bytes: Arc<Atomic<isize>>,
}

impl Sender {
    /// Charges `bytes` to the user. Returns `false` and charges nothing if the user has `limit` or
    /// more. Any context.
    pub(crate) fn charge(&self, bytes: isize, limit: isize) -> bool {
        let before = self.bytes.fetch_add(bytes, Relaxed);
        if before < limit {
            return true;
        }
        self.uncharge(bytes);
        false
    }

    /// Returns a charge. Any context.
    pub(crate) fn uncharge(&self, bytes: isize) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

/// Any context up to softirq.
impl Drop for Sender {
    fn drop(&mut self) {
        let mut users = self.senders.users.lock();
        let Some(user) = users.get_mut(&self.uid) else {
            return;
        };
        user.senders = user.senders.saturating_sub(1);
        if user.senders == 0 {
            let last = users.remove_node(&self.uid);
            drop(users);
            drop(last);
        }
    }
}
