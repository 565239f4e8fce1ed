//! What every store must do with codes and page sessions.

use std::time::Duration;

use callboard_domain::page::{PageGrant, PageKeyKind};
use callboard_domain::rights::{Lane, Rights};
use callboard_domain::token::TokenId;
use callboard_store::{NewPageKey, PageHash, TokenGrant};

use crate::conformance::conformance;
use crate::fixture::{Fixture, next_id};

conformance! {
    a_code_is_taken_once_and_in_time,
    a_page_session_lasts_until_it_is_ended_or_pruned,
}

const MINUTE: Duration = Duration::from_secs(60);

fn terminal() -> PageGrant {
    PageGrant::Terminal(Rights { lane: Lane::KaganAdmin, ..Rights::default() })
}

async fn add(f: &Fixture, hash: PageHash, kind: PageKeyKind, grant: PageGrant) {
    let (org, actor) = (f.home.org.clone(), "human:ana".parse().unwrap());
    let key = NewPageKey { hash, kind, org, actor, grant, lives: MINUTE };
    f.store.page_key_add(key).await.unwrap();
}

async fn a_code_is_taken_once_and_in_time(f: Fixture) {
    for n in [1, 2] {
        add(&f, [n; 32], PageKeyKind::Code, terminal()).await;
    }
    assert_eq!(f.store.page_session([1; 32]).await.unwrap(), None, "a code is no session");
    let other = f.neighbour().await;
    let taken = other.store.page_code_take([1; 32]).await.unwrap().unwrap();
    assert_eq!((&*taken.org, taken.actor.as_str()), (&*f.home.org, "human:ana"));
    assert_eq!((taken.kind, taken.grant), (PageKeyKind::Code, terminal()));
    assert_eq!(taken.expires_at, taken.created_at.plus_ms(60_000));
    for store in [&f.store, &other.store] {
        assert_eq!(store.page_code_take([1; 32]).await.unwrap(), None, "it was used");
    }
    assert_eq!(f.store.page_code_take([9; 32]).await.unwrap(), None);
    f.clock.advance_ms(60_000);
    assert_eq!(f.store.page_code_take([2; 32]).await.unwrap(), None, "it is too late");
}

async fn a_page_session_lasts_until_it_is_ended_or_pruned(f: Fixture) {
    let id = TokenId(next_id());
    let grant = TokenGrant {
        id,
        hash: [7; 32],
        org: f.home.org.to_string(),
        actor: "human:ana".parse().unwrap(),
        rights: Rights::default(),
        lives: None,
        by: "human:ana".parse().unwrap(),
    };
    f.store.token_add(grant).await.unwrap();
    add(&f, [1; 32], PageKeyKind::Session, PageGrant::Token(id)).await;
    add(&f, [2; 32], PageKeyKind::Session, terminal()).await;
    assert_eq!(f.store.page_code_take([1; 32]).await.unwrap(), None, "a session is no code");
    let found = f.neighbour().await.store.page_session([1; 32]).await.unwrap().unwrap();
    assert_eq!(found.grant, PageGrant::Token(id));
    for _ in 0..2 {
        f.store.page_session_end([1; 32]).await.unwrap();
        assert_eq!(f.store.page_session([1; 32]).await.unwrap(), None);
    }
    let kept = f.store.page_session([2; 32]).await.unwrap().unwrap();
    assert!(kept.is_live(f.store.now()));
    f.store.page_keys_prune(f.store.now()).await.unwrap();
    assert_eq!(f.store.page_session([2; 32]).await.unwrap(), Some(kept.clone()));
    f.clock.advance_ms(60_000);
    assert!(!kept.is_live(f.store.now()), "it ends at its expiry");
    f.clock.advance_ms(1);
    f.store.page_keys_prune(f.store.now()).await.unwrap();
    assert_eq!(f.store.page_session([2; 32]).await.unwrap(), None);
}
