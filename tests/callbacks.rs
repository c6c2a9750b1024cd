//! What a driver is answered when it calls back from the middle of a call.
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use flight::Passive;
use kernel::miniport::{Answer, Births, Born, Home, Miniport};
use kernel::services::Services;
use kernel::{Handle, Plugged};
use softgpu::SoftGpu;
use softgpu::format::describe;
use std::sync::{Arc, Mutex, OnceLock};
use stories::run;
use thunk::{Client, Create};
use windtunnel::{Bench, On};

/// The built-in driver; in a create that joins a resource, it looks up the resource's handle.
struct Asks {
    driver: Arc<SoftGpu>,
    services: OnceLock<Arc<Services>>,
    resource: OnceLock<Handle>,
    /// The word it was lent, and the one it was answered.
    answers: Mutex<Vec<(usize, Option<usize>)>>,
}

impl Miniport for Asks {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn add_device(&self, at: &mut Passive, services: &Arc<Services>) -> Answer<()> {
        self.services.get_or_init(|| services.clone());
        self.driver.add_device(at, services)
    }

    fn create_allocations(&self, at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        if let (Some(Home::Known(word, _)), Some(handle)) = (&births.resource, self.resource.get())
        {
            let found = self.services.get().unwrap().handle_data(at, *handle, false);
            self.answers.lock().unwrap().push((word.word(), found));
        }
        self.driver.create_allocations(at, births)
    }
}

#[test]
fn a_driver_finds_a_resource_while_its_word_is_lent() {
    for on in [On::Stepped(1), On::Free] {
        let (driver, machine) = SoftGpu::new();
        let (services, resource, answers) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        let asks = Arc::new(Asks { driver, services, resource, answers });
        let miniport = asks.clone();
        let plug = |log: &_| Plugged { miniport, machine, pool: nt::Pool::new(Arc::clone(log)) };
        run(on, plug, |wing, at| {
            let bench = Bench::open(Client::new(&wing.kernel), at).unwrap();
            let made = bench.create_resource(at, 1).unwrap();
            asks.resource.get_or_init(|| Handle(made.resource));
            let more = Create::on(bench.device, vec![describe(4096)]).into_resource(made.resource);
            bench.make(at, &more).unwrap();
            bench.destroy_resource(at, made.resource).unwrap();
            bench.close(at, &[]).unwrap();
        });
        let answers = asks.answers.lock().unwrap();
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].1, Some(answers[0].0), "the word it was lent");
    }
}
