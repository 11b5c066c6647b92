//! Typed JSON in both directions, with a timeout and an idempotency key that allows retries.

use std::time::Duration;

use outflow::{Api, Outflow, Rules};
use outflow_mock::{MockApi, MockResponse};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Order {
    amount: u32,
}

#[derive(Deserialize, Debug)]
struct Receipt {
    id: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let exchange = MockApi::builder().build()?;
    exchange.answer("/v1/orders", MockResponse::ok(r#"{"id": "17"}"#));
    let server = exchange.listen().await?;

    let mut api = Api::new("exchange", server.url().parse()?);
    api.rules = Rules::with_limit("10/s".parse()?);
    let client = Outflow::init([api])?;

    let response = client
        .post("exchange", "/v1/orders")
        .json(&Order { amount: 3 })
        .idempotency_key("order-17")
        .timeout(Duration::from_secs(5))
        .send()
        .await?;
    let receipt: Receipt = response.error_for_status()?.json().await?;
    println!("order {} was taken", receipt.id);
    Ok(())
}
