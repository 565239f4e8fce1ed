//! Closes the ways to a TCP port that Landlock does not see. A Multipath TCP socket falls back to plain TCP, and data
//! sent with `MSG_FASTOPEN` opens a connection without `connect`; io_uring does both past this filter. SMC sockets fall
//! back to TCP, too.
//!
//! The filter kills a program for another architecture of the same machine (32-bit x86).

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// `libc` does not define this constant.
const AF_SMC: u64 = 43;

/// The filters; none on a processor that they do not support.
pub(super) fn filters() -> io::Result<Vec<BpfProgram>> {
    let Ok(arch) = std::env::consts::ARCH.try_into() else { return Ok(Vec::new()) };
    let (equal, fast_open) = (SeccompCmpOp::Eq, libc::MSG_FASTOPEN.cast_unsigned().into());
    let is_fast = |index| rule(index, SeccompCmpOp::MaskedEq(fast_open), fast_open);
    let closed = [
        (
            libc::EPROTONOSUPPORT,
            vec![(
                libc::SYS_socket,
                vec![
                    rule(2, equal.clone(), libc::IPPROTO_MPTCP.cast_unsigned().into())?,
                    rule(0, equal, AF_SMC)?,
                ],
            )],
        ),
        (
            libc::EOPNOTSUPP,
            vec![
                (libc::SYS_sendto, vec![is_fast(3)?]),
                (libc::SYS_sendmsg, vec![is_fast(2)?]),
                (libc::SYS_sendmmsg, vec![is_fast(3)?]),
            ],
        ),
        // A call without a rule always matches.
        (libc::ENOSYS, vec![(libc::SYS_io_uring_setup, Vec::new())]),
    ];
    let filter = |(errno, rules): (i32, Vec<(i64, Vec<SeccompRule>)>)| {
        let rules: BTreeMap<_, _> = rules.into_iter().collect();
        let refused = SeccompAction::Errno(errno.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch);
        filter.and_then(BpfProgram::try_from).map_err(io::Error::other)
    };
    closed.into_iter().map(filter).collect()
}

fn rule(index: u8, is: SeccompCmpOp, value: u64) -> io::Result<SeccompRule> {
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, is, value);
    condition.and_then(|one| SeccompRule::new(vec![one])).map_err(io::Error::other)
}
