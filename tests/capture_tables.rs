//! Minidrivers with tables, flown beside the others: the good ones are quiet, and their pictures
//! arrive.

use drivers::stream::TABLES;
use drivers::stream::pattern::format;
use flight::{Crew, Log, Pool as _, Stepped};
use std::sync::Arc;
use stream::{Graph, Stream, Wish};
use verify::{Severity, Verifier};

#[test]
fn good_tables_fly_clean_and_break_nothing() {
    for (seed, table) in (1..).zip(TABLES.iter().filter(|it| it.breaks.is_empty())) {
        let log = Arc::new(Log::new());
        let driver = (table.make)(&log).unwrap();
        let flown = Stepped::fly(seed, &log, |host, at| {
            let stream = Stream::new(host.clone(), log.clone());
            let crew: Arc<dyn Crew> = host.clone();
            stream.attend(&crew);
            let device = stream.add_device(at, driver.plug()).unwrap();
            let graph = Graph::open(&stream, at, device, &format(0), &Wish::default()).unwrap();
            let arrived = graph.run(at, 4).unwrap().len();
            graph.close(at).unwrap();
            stream.remove_device(at, device).unwrap();
            (arrived, stream.census().count())
        });
        assert_eq!(flown.unwrap(), (4, 0), "{}: pictures, and what is alive", table.name);
        driver.pool().close();
        let mut verifier = Verifier::new();
        for event in &log.take() {
            verifier.observe(event);
        }
        let loud = verifier.findings().iter().find(|it| it.severity > Severity::Note);
        assert_eq!(loud, None, "{}", table.name);
        windtunnel::keep_tally(verifier.tally());
        windtunnel::keep_tally(&log.judged());
    }
}
