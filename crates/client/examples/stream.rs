//! A streamed response body. Its call is in flight until the body ends or is dropped.

use outflow::{Api, Outflow, Rules};
use outflow_mock::{Content, MockApi, MockResponse};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let archive = MockApi::builder().build()?;
    archive.answer("/dump", MockResponse::ok("").content(Content::Zeros(1_000_000)));
    let server = archive.listen().await?;

    let mut api = Api::new("archive", server.url().parse()?);
    api.rules = Rules::with_limit("10/s".parse()?);
    let client = Outflow::init([api])?;

    let response = client.get("archive", "/dump").send_streaming().await?;
    let (mut body, mut bytes) = (response.stream(), 0);
    while let Some(chunk) = body.chunk().await {
        bytes += chunk?.len();
    }
    println!("{bytes} bytes, read in chunks");
    Ok(())
}
