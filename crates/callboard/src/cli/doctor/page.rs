//! The doctor of a running server, for its pages: the checks that are quick and need no second process, and the look at
//! the clients, which goes on beside the page.

use std::sync::Arc;

use callboard_engine::Engine;
use callboard_surface::web::{Doctor, DoctorLine, DoctorWord};

use super::{Finding, Health, clients, machine, project};
use crate::config::Settings;
use crate::place::Place;

/// The doctor for the pages of a server with these settings.
pub fn on_pages(engine: Arc<Engine>, settings: Settings, place: Option<Place>) -> Arc<Doctor> {
    let clients_of = place.clone();
    let known = Arc::new((settings, place));
    let doctor = Doctor::new(move || {
        let (engine, known) = (engine.clone(), known.clone());
        Box::pin(async move {
            let (settings, place) = &*known;
            let mut found = vec![machine::git(), machine::sandbox()];
            found.push(machine::shell(&settings.check_shell));
            found.push(project::embedder(settings));
            if let Some(place) = place {
                found.extend(project::of_place(place).await);
                found.extend(project::lost_files(settings, place));
            }
            found.push(project::answers(&engine).await);
            found.push(project::clock(&engine));
            found.into_iter().map(line).collect()
        })
    });
    Arc::new(match clients_of.map(Arc::new) {
        None => doctor,
        Some(place) => doctor.with_clients(move || {
            let place = place.clone();
            Box::pin(async move { clients::look(&place).await.into_iter().map(line).collect() })
        }),
    })
}

fn line(finding: Finding) -> DoctorLine {
    DoctorLine {
        name: finding.name.into_owned(),
        word: match finding.health {
            Health::Ok => DoctorWord::Ok,
            Health::Warn => DoctorWord::Warn,
            Health::Fail => DoctorWord::Fail,
        },
        message: finding.message,
        fix: finding.fix,
    }
}
