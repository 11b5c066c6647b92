//! One GET request: `cargo run -p outflow --example get -- https://example.com`.

use outflow::{Api, Outflow, Rules};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(url) = std::env::args().nth(1) else {
        println!("usage: get URL, for example https://example.com");
        return Ok(());
    };
    let mut api = Api::new("example", url.parse()?);
    api.rules = Rules::with_limit("5/s".parse()?);
    let client = Outflow::init([api])?;

    let response = client.get("example", "/").send().await?;
    println!("{} after {:?} of waiting", response.status(), response.waited());
    println!("{} bytes", response.bytes().await?.len());
    Ok(())
}
