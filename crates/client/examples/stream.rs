//! A body that is read as it comes. It holds its place at the API until it ends or is dropped.

use outflow::{Api, Outflow, Rules};
use outflow_mock::{Content, MockApi, MockResponse};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let archive = MockApi::builder().build()?;
    archive.answer(
        "/dump",
        MockResponse::ok("").content(Content::Zeros(1_000_000)),
    );
    let server = archive.listen().await?;

    let mut api = Api::new("archive", server.url().parse()?);
    api.rules = Rules::with_limit("10/s".parse()?);
    let client = Outflow::init([api])?;

    let answer = client.get("archive", "/dump").send_streaming().await?;
    let (mut body, mut bytes) = (answer.stream(), 0);
    while let Some(piece) = body.chunk().await {
        bytes += piece?.len();
    }
    println!("{bytes} bytes, never all of them at once");
    Ok(())
}
