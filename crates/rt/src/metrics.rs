//! `/metrics`: an HTTP server on a thread of its own, which asks the monitor's thread for the page.
//!
//! Owns the listening socket and the requests' paths. What is on the page is the monitor's business. A port that is
//! taken is no reason not to start: another one is used, and `ceph mgr services` says which.
//!
//! Invariant: the monitor's thread never waits for a reader; a page is made once a request and handed over whole.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use tiny_http::{Header, Method, Response, Server};
use tokio::sync::{mpsc, oneshot};

/// The port that Ceph's exporter has (`mgr/prometheus/server_port`).
pub const PORT: u16 = 9283;

/// Requests that wait for the monitor at once; further ones are told to come back.
const WAITING_MAX: usize = 16;

/// A request for the page.
pub(crate) type PageRequest = oneshot::Sender<String>;

/// The server; it ends when this is dropped.
pub(crate) struct MetricsServer {
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
    url: String,
}

impl MetricsServer {
    /// Serves at `port`, or at any port where that one is taken. The other end of the requests comes back.
    pub(crate) fn start(host: IpAddr, port: u16) -> io::Result<(MetricsServer, mpsc::Receiver<PageRequest>)> {
        let at = |port| Server::http(SocketAddr::new(host, port)).map_err(|e| io::Error::other(e.to_string()));
        let server = Arc::new(at(port).or_else(|_| at(0))?);
        let address = server.server_addr().to_ip().ok_or_else(|| io::Error::other("no address"))?;
        let (ask, asked) = mpsc::channel(WAITING_MAX);
        let theirs = server.clone();
        let serve = move || theirs.incoming_requests().for_each(|request| answer(request, &ask));
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok((MetricsServer { server, thread: Some(thread), url: format!("http://{address}/") }, asked))
    }

    /// Where it serves.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            // It ends by itself; a panic there has been printed.
            let _ = thread.join();
        }
    }
}

fn answer(request: tiny_http::Request, ask: &mpsc::Sender<PageRequest>) {
    let path = request.url().split('?').next().unwrap_or_default();
    let known = matches!(request.method(), Method::Get | Method::Head);
    let (status, kind, body) = match path {
        _ if !known => (405, "text/plain", "only GET and HEAD are served\n".to_owned()),
        "/metrics" => match page(ask) {
            Some(page) => (200, "text/plain; charset=utf-8", page),
            None => (503, "text/plain", "the monitor does not answer\n".to_owned()),
        },
        "/" => (200, "text/html", "<!DOCTYPE html><title>Loligo</title><a href=\"/metrics\">Metrics</a>\n".to_owned()),
        _ => (404, "text/plain", "there is only /metrics\n".to_owned()),
    };
    let kind = Header::from_bytes("Content-Type", kind).expect("our own header is well-formed");
    let response = Response::from_string(body).with_status_code(status).with_header(kind);
    if let Err(error) = request.respond(response) {
        tracing::debug!(%error, "a reader of the metrics left");
    }
}

/// The page from the monitor's thread; none where that has ended or has too many to make.
fn page(ask: &mpsc::Sender<PageRequest>) -> Option<String> {
    let (reply, answer) = oneshot::channel();
    ask.try_send(reply).ok()?;
    answer.blocking_recv().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;

    fn get(url: &str, path: &str) -> String {
        let address: SocketAddr = url.trim_start_matches("http://").trim_end_matches('/').parse().expect("an address");
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        text
    }

    #[test]
    fn a_taken_port_is_avoided_and_pages_come_from_the_other_end() {
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let taken = std::net::TcpListener::bind((host, 0)).expect("a port");
        let port = taken.local_addr().expect("bound").port();
        let (server, mut asked) = MetricsServer::start(host, port).expect("another port is free");
        assert!(!server.url().contains(&format!(":{port}/")), "{}", server.url());
        let maker = std::thread::spawn(move || {
            let reply = asked.blocking_recv().expect("somebody asks");
            reply.send("ceph_health_status 0.0\n".to_owned()).expect("somebody waits");
        });
        let page = get(server.url(), "/metrics");
        assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("ceph_health_status 0.0\n"), "{page}");
        maker.join().expect("it made the page");
        assert!(get(server.url(), "/metrics").starts_with("HTTP/1.1 503"), "nobody makes pages any more");
        assert!(get(server.url(), "/elsewhere").starts_with("HTTP/1.1 404"));
    }
}
