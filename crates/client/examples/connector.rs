//! A custom connector: here pipes within the process; a Unix socket works the same way.

use std::sync::Arc;

use outflow::{Api, Connecting, IoStream, Outflow};
use outflow_mock::MockApi;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Arc::new(MockApi::builder().build()?.in_memory());
    let pipes = move |host: &str, port: u16| -> Connecting {
        println!("a connection to {host}, port {port}");
        let pipe: Box<dyn IoStream> = Box::new(server.connect());
        Box::pin(async move { Ok(pipe) })
    };

    let client = Outflow::builder()
        .api(Api::new("inside", "http://inside.test".parse()?))
        .connector(Arc::new(pipes))
        .build()?;
    for path in ["/first", "/second"] {
        let response = client.get("inside", path).send().await?;
        println!("{path}: {}", response.status());
    }
    Ok(())
}
